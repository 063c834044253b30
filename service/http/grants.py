"""Grants: what there is, what may be granted, and what it would have covered (http-api, *Resume*)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from service.grants import Grants
from service.http.bodies import ExactJsonRoute, GrantTerms
from service.http.chat import json_response, service_of
from service.http.openapi import problems
from service.http.security import caller, face


class GrantsQuery(BaseModel):
    """Which grants to list; `all` also those that count no more."""

    model_config = ConfigDict(extra="forbid")

    all: bool = False


def grants_of(request: Request) -> Grants:
    """The grants of the service that this application serves."""
    service = service_of(request)
    return Grants(service.database, service.faculties.judge, service.faculties.tools)


def grant_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.get("/grants")
    async def list_grants(request: Request, query: Annotated[GrantsQuery, Query()]) -> Response:
        """Live grants that the caller may see, or all that ever were."""
        return json_response({"items": await grants_of(request).listed(caller(request), everything=query.all)})

    @router.delete("/grants/{grant_id}", status_code=204)
    async def revoke(request: Request, grant_id: str) -> Response:
        """End a grant now."""
        await grants_of(request).revoke(grant_id, caller(request), face(request))
        return Response(status_code=204)

    @router.get("/approvals/{action_id}/grant", responses=problems(409, 410))
    async def offers(request: Request, action_id: str) -> Response:
        """Grants that may go with an approve of this action, the narrowest first; grants nothing."""
        found = await grants_of(request).offers(action_id, caller(request))
        service_of(request).showings.saw(caller(request), [action_id], face(request))
        return json_response(found)

    @router.post("/approvals/{action_id}/grant")
    async def preview(request: Request, action_id: str, body: GrantTerms) -> Response:
        """What such a grant would be and would have covered; grants nothing."""
        found = await grants_of(request).preview(action_id, body.wish(), caller(request))
        service_of(request).showings.saw(caller(request), [action_id], face(request))
        return json_response(found)

    return router
