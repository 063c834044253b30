"""The audit over HTTP, as JSON, CSV or NDJSON (http-api, *Resume*)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from butler.storage.audit import Filter, read_rows
from butler.types import Json
from service.audit_export import encoded, from_time, shown_row
from service.http.access import admin_only
from service.http.chat import json_response, service_of
from service.http.openapi import TABLES


class AuditQuery(BaseModel):
    """Which audit rows to list."""

    model_config = ConfigDict(extra="forbid")

    since: datetime | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    action_id: str = ""
    thread_id: str = ""
    event: str = ""
    actor: str = ""

    def filter(self) -> Filter:
        """What the database is asked for."""
        return Filter(
            since=from_time(self.since), after=self.after, action_id=self.action_id or None,
            thread_id=self.thread_id or None, event=self.event or None, actor=self.actor or None,
        )  # fmt: skip


def _audit_response(request: Request, rows: list[Json]) -> Response:
    """The rows as JSON, or as CSV or NDJSON where the client asked for that."""
    wanted = request.headers.get("accept", "")
    if "application/x-ndjson" in wanted:
        return Response(b"".join(encoded(rows, "ndjson")), media_type="application/x-ndjson")
    if "text/csv" in wanted:
        return Response(b"".join(encoded(rows, "csv")), media_type="text/csv")
    return json_response({"items": rows})


def audit_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/audit", responses=TABLES)
    async def read_audit(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """Audit rows, oldest first; for admins."""
        await admin_only(request, "Only an admin reads the audit.")
        service = service_of(request)
        rows = await service.database.read(lambda connection: read_rows(connection, query.filter(), query.limit))
        return _audit_response(request, [shown_row(row, service.faculties.redactor) for row in rows])

    return router
