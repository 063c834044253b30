"""Errors as OpenAI's clients read them, with the house's own codes."""

from __future__ import annotations

from starlette.responses import Response

from butler.types import Json
from service.events import to_json

PREFIX = "/v1/"
"""What is below this path is told in OpenAI's shape."""
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_body(status: int, code: str, detail: str, param: str | None = None) -> Json:
    """``{"error": {message, type, param, code}}``."""
    kind = _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": detail, "type": kind, "param": param, "code": code}}


def error_response(
    status: int, code: str, detail: str, headers: dict[str, str] | None = None, param: str | None = None
) -> Response:
    """The response to a request that was refused or failed."""
    return Response(to_json(error_body(status, code, detail, param)), status, headers, media_type="application/json")
