"""The inbox, single decisions, grants and the audit (http-api, *Resume*)."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from butler.approvals import grants
from butler.approvals.show import approval
from butler.clock import stamp
from butler.errors import ButlerError
from butler.storage import audit
from butler.types import Json
from service.approvals import list_approvals
from service.events import to_json
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


class AuditQuery(BaseModel):
    """Which audit rows to list."""

    model_config = ConfigDict(extra="forbid")

    since: datetime | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


AUDIT_COLUMNS = ("seq", "at", "event", "actor", "via", "thread_id", "run_id", "action_id", "data", "hash")


def _audit_response(request: Request, rows: list[Json]) -> Response:
    """The rows as JSON, or as CSV or NDJSON where the client asked for that."""
    wanted = request.headers.get("accept", "")
    if "application/x-ndjson" in wanted:
        return Response(b"".join(to_json(row) + b"\n" for row in rows), media_type="application/x-ndjson")
    if "text/csv" in wanted:
        table = io.StringIO()
        writer = csv.DictWriter(table, AUDIT_COLUMNS)
        writer.writeheader()
        writer.writerows({**row, "data": to_json(row["data"]).decode()} for row in rows)
        return Response(table.getvalue(), media_type="text/csv")
    return json_response({"items": rows})


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
        faculties = service.faculties
        shown = [approval(action, faculties.tools, faculties.redactor) for action in items]
        return json_response({"items": shown, "next_cursor": cursor})

    @router.get("/approvals/{action_id}")
    async def one(request: Request, action_id: str) -> Response:
        """One approval."""
        return json_response(await service_of(request).approval(caller(request), action_id))

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

    @router.delete("/grants/{grant_id}")
    async def revoke(request: Request, grant_id: str) -> Response:
        """End a grant now."""
        person = caller(request)
        await service_of(request).database.write(lambda connection: grants.revoke(connection, grant_id, person, "http"))
        return Response(status_code=204)

    @router.get("/audit")
    async def read_audit(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """Audit rows, oldest first; for admins."""
        service = service_of(request)
        if not caller(request).is_admin:
            raise ButlerError("forbidden", "Only an admin reads the audit.")
        since = stamp(query.since if query.since.tzinfo else query.since.replace(tzinfo=UTC)) if query.since else None
        rows = await service.database.read(lambda connection: audit.rows_since(connection, since, query.limit))
        return _audit_response(request, service.faculties.redactor.json(rows))

    return router
