"""The inbox, and decisions one by one or many at once (http-api, *Resume*)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from butler.approvals.actions import Action
from butler.approvals.show import approval, for_whom
from butler.types import Json
from service.approvals import list_approvals
from service.butler import ButlerService
from service.decisions import Given, Settled
from service.http.bodies import DecisionBody, ExactJsonRoute, ManyBody
from service.http.chat import json_response, service_of
from service.http.security import caller, face


class ApprovalsQuery(BaseModel):
    """Which approvals to list."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["", "pending", "approved", "rejected", "expired", "cancelled"] = ""
    thread_id: str = ""
    code: Annotated[str, Field(max_length=8)] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str = ""
    waits_for: bool = False


class ApprovalQuery(BaseModel):
    """Whether to say who may decide it."""

    model_config = ConfigDict(extra="forbid")

    waits_for: bool = False


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
                code=query.code.strip().upper() or None, limit=query.limit, cursor=query.cursor or None,
            )
        )  # fmt: skip
        service.showings.saw(
            person, [action.action_id for action in items if action.status == "pending"], face(request)
        )
        faculties = service.faculties
        shown = [approval(action, faculties.tools, faculties.redactor) for action in items]
        if query.waits_for:
            shown = [for_whom(one, action, person) for one, action in zip(shown, items, strict=True)]
        return json_response({"items": shown, "next_cursor": cursor})

    @router.get("/approvals/{action_id}")
    async def one(request: Request, action_id: str, query: Annotated[ApprovalQuery, Query()]) -> Response:
        """One approval."""
        service, person = service_of(request), caller(request)
        shown = await service.approval(person, action_id, waits_for=query.waits_for)
        if shown["status"] == "pending":
            service.showings.saw(person, [action_id], face(request))
        return json_response(shown)

    @router.post("/approvals/{action_id}")
    async def decide(request: Request, action_id: str, body: DecisionBody) -> Response:
        """Decide one action; its thread goes on by itself."""
        service, person = service_of(request), caller(request)
        decided = await service.decisions.one(action_id, body.read(), person, face(request))
        action = decided.actions[0]
        return json_response(_decided(service, action, decided.grants.get(action.action_id)))

    @router.post("/approvals")
    async def decide_many(request: Request, body: ManyBody) -> Response:
        """Decide actions of any threads, each on its own, with one result each."""
        service, person = service_of(request), caller(request)
        settled = await service.decisions.many(body.read(), person, face(request))
        return json_response({"items": [_result(service, one) for one in settled]})

    return router


def _decided(service: ButlerService, action: Action, given: Given | None) -> Json:
    faculties = service.faculties
    answer: Json = {"approval": approval(action, faculties.tools, faculties.redactor), "run_id": action.run_id}
    if given is not None:
        grant = faculties.redactor.json(given.grant.public(faculties.tools))
        answer["grant"] = {**grant, "note": given.note}
    return answer


def _result(service: ButlerService, one: Settled) -> Json:
    if one.error is not None:
        named = {"code": one.named.code} if one.named.action_id is None else {"action_id": one.named.action_id}
        error = {"code": one.error.code, "detail": one.error.detail, **one.error.extras}
        return {**named, "ok": False, "error": service.faculties.redactor.json(error)}
    assert one.action is not None
    return {"action_id": one.action.action_id, "ok": True, **_decided(service, one.action, one.given)}
