"""Errors on the wire: application/problem+json with the stable codes (http-api, *Errors*)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from butler.errors import ButlerError
from butler.ids import new_id
from service.events import to_json
from service.http.faults import faults_of, sentence_of
from service.openai.errors import PREFIX, error_response

log = structlog.get_logger("butler.http")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CODE_OF_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    413: "too_large",
    429: "rate_limited",
}


def problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None, **extras: Any) -> Response:
    """A problem response; extras stand beside the standard members."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail,
            "code": code, **extras}  # fmt: skip
    return Response(to_json(body), status, headers, media_type="application/problem+json")


def refusal(
    path: str, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **extras: Any
) -> Response:
    """A problem response, or on the paths of OpenAI's clients an error as they read it."""
    if path.startswith(PREFIX):
        return error_response(status, code, detail, headers, extras.get("param"))
    extras.pop("param", None)
    return problem(status, code, detail, headers, **extras)


def of_error(error: ButlerError, path: str) -> Response:
    """The response to a ButlerError on `path`."""
    headers = {"WWW-Authenticate": "Bearer"} if error.code == "unauthorized" else None
    return refusal(path, error.status, error.code, error.detail, headers, **error.extras)


def internal(error: Exception, method: str, path: str) -> Response:
    """The response to a fault of our own: an incident number for the person, the trace for the log."""
    incident = new_id()
    log.error("internal_error", incident=incident, where=f"{method} {path}", exc_info=error)
    return refusal(
        path, 500, "internal",
        f"Something went wrong inside Butler. Its log has more under incident {incident}.", incident=incident,
    )  # fmt: skip


def install(app: FastAPI) -> None:
    """Register the handlers for every kind of error that a route can raise."""

    @app.exception_handler(ButlerError)
    async def _butler_error(request: Request, error: ButlerError) -> Response:
        return of_error(error, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        faults = faults_of(error)
        return refusal(
            request.url.path, 422, "invalid_request", sentence_of(error), errors=faults, param=faults[0]["where"]
        )  # fmt: skip

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        code = CODE_OF_STATUS.get(error.status_code, "invalid_request")
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(sorted(_allowed(request)))
        return refusal(request.url.path, error.status_code, code, str(error.detail), headers or None)


def _allowed(request: Request) -> set[str]:
    """The methods of all routes with that path; the framework names those of the first only."""
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    return {
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    }
