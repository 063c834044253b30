"""Threads and their transcripts (http-api, *Threads*)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, func, select
from starlette.responses import Response

from butler.people import Principal
from butler.storage import conversations
from butler.storage.tables import actions
from butler.types import Json
from service.approvals import decode_cursor, encode_cursor
from service.butler import thread_item
from service.http.chat import json_response, service_of
from service.http.security import caller, face


class PageQuery(BaseModel):
    """A place in a list."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str = ""


class TranscriptQuery(BaseModel):
    """A place in a transcript."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=500)] = 100
    before: str = ""


def thread_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/threads")
    async def threads(request: Request, query: Annotated[PageQuery, Query()]) -> Response:
        """Threads, the one that changed last first."""
        person = caller(request)
        page = await service_of(request).database.read(lambda connection: list_page(connection, person, query))
        return masked(request, page)

    @router.get("/threads/{thread_id}")
    async def thread(request: Request, thread_id: str) -> Response:
        """One thread."""
        return masked(request, await service_of(request).thread(caller(request), thread_id))

    @router.get("/threads/{thread_id}/messages")
    async def messages(request: Request, thread_id: str, query: Annotated[TranscriptQuery, Query()]) -> Response:
        """The visible transcript, whole, the newest page first; lines of a page are oldest first."""
        person = caller(request)

        def read(connection: Connection) -> list[Json]:
            conversations.owned_thread(connection, thread_id, person)
            rows = conversations.transcript(connection, thread_id, query.limit, query.before or None)
            return [
                {"id": row.message_id, "role": row.role, "text": row.text, "created_at": row.created_at,
                 "run_id": row.run_id, **(row.extra or {})}
                for row in rows
            ]  # fmt: skip

        return masked(request, {"items": await service_of(request).database.read(read)})

    @router.delete("/threads/{thread_id}", status_code=204)
    async def delete(request: Request, thread_id: str) -> Response:
        """Delete a thread; audit rows stay."""
        await service_of(request).delete_thread(caller(request), thread_id, face(request))
        return Response(status_code=204)

    return router


def masked(request: Request, value: Json) -> Response:
    """A JSON response without the secrets of the house, which people type too, not only tools and models."""
    return json_response(service_of(request).faculties.redactor.json(value))


def list_page(connection: Connection, person: Principal, query: PageQuery) -> Json:
    """One page of threads with the number of pending approvals of each."""
    before: Any = decode_cursor(query.cursor) if query.cursor else None
    rows = conversations.list_threads(connection, person, query.limit + 1, before)
    shown = rows[: query.limit]
    pending: dict[str, int] = {
        thread_id: count
        for thread_id, count in connection.execute(
            select(actions.c.thread_id, func.count())
            .where(actions.c.thread_id.in_([row.thread_id for row in shown]), actions.c.status == "pending")
            .group_by(actions.c.thread_id)
        ).all()
    }
    more = len(rows) > query.limit
    return {
        "items": [thread_item(row, pending.get(row.thread_id, 0)) for row in shown],
        "next_cursor": encode_cursor(shown[-1].updated_at, shown[-1].thread_id) if more else None,
    }
