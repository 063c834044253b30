"""`POST /mcp`: MCP over streamable HTTP, behind the same door as every route (http-api, *MCP*).

Each request stands alone: no session is kept, so there is none to steal, and a restart loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import Principal
from butler.types import Json
from service.butler import ButlerService
from service.http.bodies import ExactJsonRoute, read_json
from service.http.chat import json_response, service_of
from service.http.openapi import STREAMED, Responses
from service.http.security import caller, refuse_other_origin
from service.mcp.answers import Answer, refused
from service.mcp.tools import Tools

log = structlog.get_logger("butler.mcp_server")

PATH = "/mcp"
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
_MESSAGE: Json = {
    "type": "object",
    "description": "One JSON-RPC 2.0 request or notification; a batch is refused.",
    "properties": {
        "jsonrpc": {"const": "2.0"}, "method": {"type": "string"}, "id": {"type": ["string", "integer"]},
        "params": {"type": "object"},
    },
    "required": ["jsonrpc", "method"],
}  # fmt: skip
_BODY: Json = {"required": True, "content": {"application/json": {"schema": _MESSAGE}}}
_JSON: Json = {"content": {"application/json": {}}}
_RESPONSES: Responses = {
    **STREAMED,
    202: {"description": "A notification was taken in"},
    400: {"description": "No JSON-RPC message, or not one of this protocol", **_JSON},
    406: {"description": "The client accepts no JSON", **_JSON},
}


def mcp_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)
    serving = _Serving()

    @router.post(PATH, responses=_RESPONSES, openapi_extra={"requestBody": _BODY})
    async def message(request: Request) -> Response:
        """One message of an MCP client; the tools act as the caller."""
        # A page of another site is refused whatever it sends, as the protocol asks.
        refuse_other_origin(request.headers)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return _refusal(INVALID_REQUEST, "Send one JSON-RPC message as Content-Type: application/json.")
        body = await request.body()
        try:
            read = read_json(body)
        except ButlerError as error:
            return _refusal(PARSE_ERROR, error.detail)
        if not isinstance(read, dict) or read.get("jsonrpc") != "2.0":
            return _refusal(INVALID_REQUEST, "Send one JSON-RPC 2.0 message, an object; batches are not taken.")
        if "id" in read and (isinstance(read["id"], bool) or not isinstance(read["id"], str | int)):
            return _refusal(INVALID_REQUEST, "The id of a message is text or a whole number.")
        if fault := _fault_in(read):
            return _refusal(INVALID_PARAMS, fault, read.get("id"))
        if "id" in read and (fault := _fault_in_call(read)):
            # As an answer to the message: clients end their session over another status than 200.
            return _refusal(INVALID_PARAMS, fault, read["id"], 200)
        await serving.begin(service_of(request))
        return _Handed(serving, body, streamed=_wants_progress(read, request.headers))

    return router


def _refusal(code: int, message: str, answered: str | int | None = None, status: int = 400) -> Response:
    error = {"code": code, "message": message, "data": {"code": "invalid_request", "detail": message}}
    return json_response({"jsonrpc": "2.0", "id": answered, "error": error}, status)


def _fault_in(message: Json) -> str:
    """What is wrong with the form of a message, in a sentence; empty when it is sound."""
    if "method" in message and not isinstance(message["method"], str):
        return "The method of a message is text."
    return "" if isinstance(message.get("params", {}), dict | None) else "The params of a message are an object."


def _fault_in_call(message: Json) -> str:
    """What is wrong with the form of a call, which has its code as every refusal; empty for other messages."""
    if message.get("method") != "tools/call":
        return ""
    params = message.get("params") or {}
    if not isinstance(params.get("name"), str):
        return "Say which tool it is, as the text `name`."
    return "" if isinstance(params.get("arguments", {}), dict | None) else "The arguments of a call are an object."


def _wants_progress(message: Json, headers: Mapping[str, str]) -> bool:
    """Whether an answer has to be a stream: only where the client wants to hear how a call goes on."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    wishes = isinstance(meta, dict) and "progressToken" in meta
    return wishes and "text/event-stream" in headers.get("accept", "")


class _Serving:
    """The SDK's side, loaded and started with the first message, so that a house without MCP clients pays nothing."""

    def __init__(self) -> None:
        self._managers: dict[bool, Any] = {}
        self._ready: asyncio.Event | None = None

    async def begin(self, service: ButlerService) -> None:
        """Make sure that messages can be handled."""
        if self._ready is None:
            self._ready = asyncio.Event()
            service.background.start("mcp server", lambda: self._run(service))
        await self._ready.wait()

    async def handle(self, streamed: bool, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the SDK answer one request."""
        await self._managers[streamed].handle_request(scope, receive, send)

    async def _run(self, service: ButlerService) -> None:
        # Imported here: it takes a third of a second that no start need wait for.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from service.mcp.protocol import Context, make_server

        tools = Tools(service)

        async def call(context: Context, name: str, arguments: Json) -> Answer:
            async def progress(spent: float, said: str) -> None:
                await context.session.report_progress(spent, None, said)

            try:
                answer = await tools.call(_person(context), name, arguments, progress)
            except ButlerError as error:
                answer = refused(error)
            except LookupError:
                raise
            except Exception as error:
                answer = refused(_fault(error, name))
            if answer.is_error:
                return Answer(service.faculties.redactor.json(answer.value), is_error=True)
            return answer

        async def read(context: Context, run_id: str) -> Json:
            return await tools.run(_person(context), run_id)

        server = make_server(call, read)
        assert self._ready is not None
        try:
            for streamed in (False, True):
                self._managers[streamed] = StreamableHTTPSessionManager(
                    server, json_response=not streamed, stateless=True
                )
            async with self._managers[False].run(), self._managers[True].run():
                self._ready.set()
                await asyncio.Event().wait()
        finally:
            self._ready.clear()


def _fault(error: Exception, name: str) -> ButlerError:
    """A fault of our own: an incident number for the caller, the trace for the log."""
    incident = new_id()
    log.error("mcp_call_failed", tool=name, incident=incident, exc_info=error)
    detail = f"Something went wrong inside Butler. Its log has more under incident {incident}."
    return ButlerError("internal", detail, incident=incident)


def _person(context: Any) -> Principal:
    return caller(context.request)


class _Handed(Response):
    """An answer that the SDK writes; the body, which was looked at already, is given to it again."""

    def __init__(self, serving: _Serving, body: bytes, *, streamed: bool) -> None:
        super().__init__()
        self._serving = serving
        self._sent_body = body
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        body: bytes | None = self._sent_body

        async def again() -> Message:
            nonlocal body
            if body is not None:
                given, body = body, None
                return {"type": "http.request", "body": given, "more_body": False}
            return await receive()

        headers = scope["headers"]
        if not any(name == b"accept" for name, _ in headers):
            headers = [*headers, (b"accept", b"*/*")]
        await self._serving.handle(self._streamed, {**scope, "headers": headers}, again, send)
