"""Maids over HTTP: the registry, tasks, their evidence (http-api, *Maids*)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.approvals import decode_cursor
from service.http.bodies import ExactJsonRoute, Strict
from service.http.chat import json_response, service_of
from service.http.openapi import ACCEPTED
from service.http.security import caller, face
from service.http.threads import masked
from service.maids import MaidService

Short = Annotated[str, Field(min_length=1, max_length=100)]


class MaidRunBody(Strict):
    """``POST /maids/run``; `expect` is a verification profile as in maid_registry.yml."""

    intent: Short
    instruction: Annotated[str, Field(min_length=1, max_length=50_000)]
    project_root: Annotated[str, Field(min_length=1, max_length=4096)]
    constraints: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=50)] | None = None
    expect: dict[str, Any] | None = None
    maid_id: Short | None = None


class MaidRunsQuery(BaseModel):
    """Which page of tasks."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str = ""


def maid_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.get("/maids")
    async def registry(request: Request) -> Response:
        """The registry with health and adoption class."""
        caller(request)
        return masked(request, {"items": await MaidService(service_of(request)).listing()})

    @router.post("/maids/run", status_code=202, responses=ACCEPTED)
    async def begin(request: Request, body: MaidRunBody) -> Response:
        """Delegate a task: the first message of a new thread."""
        begun = await MaidService(service_of(request)).begin(caller(request), body.model_dump(exclude_none=True))
        ids = {"maid_run_id": begun.task.maid_run_id, "thread_id": begun.run.thread_id, "run_id": begun.run.run_id}
        return json_response(ids, 202)

    @router.get("/maid-runs")
    async def listed(request: Request, query: Annotated[MaidRunsQuery, Query()]) -> Response:
        """Tasks that the caller may see, the newest first."""
        before: Any = decode_cursor(query.cursor) if query.cursor else None
        return masked(request, await MaidService(service_of(request)).listed(caller(request), query.limit, before))

    @router.get("/maid-runs/{maid_run_id}")
    async def one(request: Request, maid_run_id: str) -> Response:
        """A task with its attempts, checks and diff; who reads it is shown its approvals."""
        service, person = service_of(request), caller(request)
        found = await MaidService(service).one(person, maid_run_id)
        service.showings.saw(person, [shown["action_id"] for shown in found["approvals"]], face(request))
        return masked(request, found)

    @router.post("/maid-runs/{maid_run_id}/cancel", status_code=202)
    async def cancel(request: Request, maid_run_id: str) -> Response:
        """End the turn of a task; the maid is stopped."""
        found = await MaidService(service_of(request)).cancel(caller(request), maid_run_id, face(request))
        return json_response(service_of(request).faculties.redactor.json(found), 202)

    return router
