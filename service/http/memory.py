"""Long-term memory and search over HTTP: always the caller's own."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from butler.clock import stamp
from butler.memory.remembered import MOST_CHARACTERS, MOST_MEMORIES
from service.events import to_json
from service.http.bodies import ExactJsonRoute, Strict
from service.http.chat import json_response, service_of
from service.http.security import caller
from service.memory import found_item, memory_item

Words = Annotated[str, Field(max_length=500)]
Importance = Annotated[int, Field(ge=1, le=10)]
MemoryText = Annotated[str, Field(min_length=1, max_length=10 * MOST_CHARACTERS)]


class SearchQuery(BaseModel):
    """What to look for in the transcript."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=500)]
    limit: Annotated[int, Field(ge=1, le=50)] = 20


class MemoriesQuery(BaseModel):
    """Which memories to list; `all` includes the forgotten ones."""

    model_config = ConfigDict(extra="forbid")

    query: Words = ""
    all: bool = False
    limit: Annotated[int, Field(ge=1, le=2 * MOST_MEMORIES)] = 200


class MemoryBody(Strict):
    """``POST /memories``."""

    text: MemoryText
    importance: Importance | None = None


class MemoryChange(Strict):
    """``PATCH /memories/{memory_id}``."""

    text: MemoryText | None = None
    importance: Importance | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.text is None and self.importance is None:
            raise ValueError("give `text`, `importance` or both")
        return self


class EraseBody(Strict):
    """``DELETE /memories``."""

    confirm: bool

    @model_validator(mode="after")
    def _is_meant(self) -> Self:
        if not self.confirm:
            raise ValueError("set `confirm` to true: this can't be undone")
        return self


def memory_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.get("/search")
    async def search(request: Request, query: Annotated[SearchQuery, Query()]) -> Response:
        """Full text over everything that was said in the caller's own threads."""
        person = caller(request)
        searched = await service_of(request).memory.archive.search(person.user_id, query.query, query.limit)
        items = [found_item(one) for one in searched.found]
        return json_response({"items": items, "not_indexed": searched.behind, "stopped": searched.stopped or None})

    @router.get("/memories")
    async def listed(request: Request, query: Annotated[MemoriesQuery, Query()]) -> Response:
        """What is remembered of the caller, the most important first."""
        found = await service_of(request).memory.listed(caller(request), query.query, forgotten=query.all)
        return json_response({"items": [memory_item(one) for one in found[: query.limit]], "total": len(found)})

    @router.get("/memories/export", responses={200: {"content": {"application/x-ndjson": {}}}})
    async def export(request: Request) -> Response:
        """Everything, forgotten memories too, as one JSON document or as JSON lines."""
        person = caller(request)
        items = [memory_item(one) for one in await service_of(request).memory.listed(person, forgotten=True)]
        if "application/x-ndjson" in request.headers.get("accept", ""):
            return _file("memories.ndjson", b"".join(to_json(item) + b"\n" for item in items), "application/x-ndjson")
        document = {"person": person.name, "exported_at": stamp(), "memories": items}
        return _file("memories.json", to_json(document), "application/json")

    @router.post("/memories", responses={201: {"description": "New", "content": {"application/json": {}}}})
    async def add(request: Request, body: MemoryBody) -> Response:
        """Remember something; a text that is there already only gets the importance."""
        memory, new = await service_of(request).memory.add(caller(request), body.text, body.importance, "http")
        return json_response(memory_item(memory), 201 if new else 200)

    @router.delete("/memories")
    async def erase(request: Request, body: EraseBody) -> Response:
        """Remove all of it for good."""
        return json_response({"erased": await service_of(request).memory.erase(caller(request), "http")})

    @router.get("/memories/{memory_id}")
    async def one(request: Request, memory_id: str) -> Response:
        """One memory."""
        return json_response(memory_item(await service_of(request).memory.one(caller(request), memory_id)))

    @router.patch("/memories/{memory_id}")
    async def edit(request: Request, memory_id: str, body: MemoryChange) -> Response:
        """Change a memory."""
        changed = await service_of(request).memory.edit(caller(request), memory_id, body.text, body.importance)
        return json_response(memory_item(changed))

    @router.delete("/memories/{memory_id}")
    async def forget(request: Request, memory_id: str) -> Response:
        """Put a memory aside; `undo` takes it back."""
        return json_response(memory_item(await service_of(request).memory.forget(caller(request), memory_id)))

    @router.post("/memories/{forgotten_id}/undo")
    async def undo(request: Request, forgotten_id: str) -> Response:
        """Take a forgotten memory back, or a merged one apart."""
        back = await service_of(request).memory.undo(caller(request), forgotten_id)
        return json_response({"items": [memory_item(one) for one in back]})

    return router


def _file(name: str, body: bytes, media_type: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(body, headers=headers, media_type=media_type)
