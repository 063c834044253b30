"""The OpenAPI document, exact enough to test every route from it: errors, media types and who needs a token."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from butler.errors import STATUS_OF_CODE
from butler.types import Json
from service.http.security import needs_token
from service.openai.errors import PREFIX

Responses = dict[int | str, dict[str, Any]]

ACCEPTED: Responses = {202: {"description": "Taken in; it goes on by itself", "content": {"application/json": {}}}}
TABLES: Responses = {200: {"content": {"text/csv": {}, "application/x-ndjson": {}}}}
STREAMED: Responses = {200: {"description": "The outcome, or its events", "content": {"text/event-stream": {}}}}
ANSWERED: Responses = {**STREAMED, **ACCEPTED}
"""What a route may answer that waits for a turn, streams it, or only takes it in."""

PROBLEM_TYPE = "application/problem+json"
_PROBLEM: Json = {
    "type": "object",
    "description": "What went wrong (RFC 9457); `code` is stable, other members depend on it.",
    "properties": {
        "type": {"const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"enum": sorted(STATUS_OF_CODE)},
    },
    "required": ["type", "title", "status", "detail", "code"],
}

_OPENAI_ERROR: Json = {
    "type": "object",
    "description": "What went wrong, as OpenAI's clients read it; `code` is the house's.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"enum": sorted(STATUS_OF_CODE)},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}

_EVENT: Json = {
    "type": "object",
    "description": "One server-sent event of a run; `data` is JSON and depends on `event`.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}


def problems(*statuses: int) -> Responses:
    """Refusals of a route that not every route of its kind has."""
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


class DocumentedApp(FastAPI):
    """FastAPI, whose document also tells what this house answers when it refuses."""

    def openapi(self) -> dict[str, Any]:
        """The document; made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
            components = document.setdefault("components", {})
            components["securitySchemes"] = schemes
            schemas = components.setdefault("schemas", {})
            schemas |= {"Problem": _PROBLEM, "OpenAIError": _OPENAI_ERROR}
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for path, item in document["paths"].items():
                for method, operation in item.items():
                    _complete(method, path, operation)
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete(method: str, path: str, operation: Json) -> None:
    """Add to one operation who needs a token and every refusal it may answer."""
    closed = needs_token(path)
    operation["security"] = [{"bearer": []}] if closed else []
    responses = operation["responses"]
    statuses = {401, 403, 429} if closed else set[int]()
    if operation.get("parameters") or operation.get("requestBody"):
        statuses.add(422)
    if "{" in path:
        statuses.add(404)
    if operation.get("requestBody"):
        # A body may name a thing that does not exist, that others decided, or that has expired.
        statuses |= {404, 409, 410, 413}
    elif method != "get":
        statuses.add(409)
    for answer in responses.values():
        if "text/event-stream" in answer.get("content", {}):
            answer["content"]["text/event-stream"] = {"schema": _EVENT}
    for status in sorted(statuses):
        is_page = "text/html" in responses.get(str(status), {}).get("content", {})
        if not is_page and (status == 422 or str(status) not in responses):
            responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": _refusal_of(path)}


def _refusal_of(path: str) -> Json:
    """The content of a refusal on `path`."""
    if path.startswith(PREFIX):
        return {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAIError"}}}
    return {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
