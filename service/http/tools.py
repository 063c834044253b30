"""`GET /tools`: what may be typed after a slash, for faces that complete it (E1)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.http.chat import json_response, service_of


def tool_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/tools")
    async def tools(request: Request) -> Response:
        """The tools that people and models may call, with their arguments."""
        items = [
            {"name": one.name, "description": one.description, "input_schema": one.input_schema}
            for one in service_of(request).faculties.tools.specs()
            if one.offered
        ]
        return json_response({"items": items})

    return router
