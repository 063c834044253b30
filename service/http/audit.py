"""The audit over HTTP, as JSON, CSV or NDJSON (http-api, *Resume*)."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from butler.clock import stamp
from butler.errors import ButlerError
from butler.storage import audit
from butler.types import Json
from service.events import to_json
from service.http.chat import json_response, service_of
from service.http.openapi import TABLES
from service.http.security import caller


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


def audit_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/audit", responses=TABLES)
    async def read_audit(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """Audit rows, oldest first; for admins."""
        service = service_of(request)
        if not caller(request).is_admin:
            raise ButlerError("forbidden", "Only an admin reads the audit.")
        since = stamp(query.since if query.since.tzinfo else query.since.replace(tzinfo=UTC)) if query.since else None
        rows = await service.database.read(
            lambda connection: audit.read_rows(connection, audit.Filter(since), query.limit)
        )
        return _audit_response(request, service.faculties.redactor.json(rows))

    return router
