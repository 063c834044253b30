"""The inbox, single decisions and grants (http-api, *Resume*)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from butler.approvals import grants
from butler.approvals.show import approval
from service.approvals import list_approvals
from service.http.bodies import DecisionBody, ExactJsonRoute
from service.http.chat import json_response, service_of
from service.http.security import caller


class ApprovalsQuery(BaseModel):
    """Which approvals to list."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["", "pending", "approved", "rejected", "expired", "cancelled"] = ""
    thread_id: str = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str = ""


def approval_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.get("/approvals")
    async def inbox(request: Request, query: Annotated[ApprovalsQuery, Query()]) -> Response:
        """Approvals that the caller may see, oldest first."""
        service, person = service_of(request), caller(request)
        items, cursor = await service.database.read(
            lambda connection: list_approvals(
                connection, person, status=query.status or None, thread_id=query.thread_id or None,
                limit=query.limit, cursor=query.cursor or None,
            )
        )  # fmt: skip
        service.showings.saw(person, [action.action_id for action in items if action.status == "pending"], "http")
        faculties = service.faculties
        shown = [approval(action, faculties.tools, faculties.redactor) for action in items]
        return json_response({"items": shown, "next_cursor": cursor})

    @router.get("/approvals/{action_id}")
    async def one(request: Request, action_id: str) -> Response:
        """One approval."""
        service, person = service_of(request), caller(request)
        shown = await service.approval(person, action_id)
        if shown["status"] == "pending":
            service.showings.saw(person, [action_id], "http")
        return json_response(shown)

    @router.post("/approvals/{action_id}")
    async def decide(request: Request, action_id: str, body: DecisionBody) -> Response:
        """Decide one action; its thread goes on by itself."""
        service, person = service_of(request), caller(request)
        decided = await service.decisions.one(action_id, body.read(), person, "http")
        faculties = service.faculties
        shown = approval(decided.actions[0], faculties.tools, faculties.redactor)
        return json_response({"approval": shown, "run_id": decided.run_id})

    @router.get("/grants")
    async def list_grants(request: Request) -> Response:
        """Live grants that the caller may see."""
        person = caller(request)
        found = await service_of(request).database.read(lambda connection: grants.visible_to(connection, person))
        return json_response({"items": [grant.public() for grant in found]})

    @router.delete("/grants/{grant_id}", status_code=204)
    async def revoke(request: Request, grant_id: str) -> Response:
        """End a grant now."""
        person = caller(request)
        await service_of(request).database.write(lambda connection: grants.revoke(connection, grant_id, person, "http"))
        return Response(status_code=204)

    return router
