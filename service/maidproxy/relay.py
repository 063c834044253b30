"""Requests of an agent on their way to its provider and back, chunk by chunk (D11)."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import MutableMapping
from typing import Any

import httpx
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from butler.maids.contract import ProviderTrouble
from butler.maids.provider import OnTrouble
from butler.redact import Redactor
from service.maidproxy.headers import retry_after, to_agent, to_provider
from service.maidproxy.meter import Meter
from service.maidproxy.usage import UsageReader

log = structlog.get_logger("butler.maidproxy")

MOST_BODY = 32 * 1024 * 1024
"""Bytes of a request, pictures and all."""
MOST_ANSWER = 64 * 1024 * 1024
MOST_ERROR = 1024 * 1024
MOST_DETAIL = 300
PATH = re.compile(r"/v1(?:/(?!\.{1,2}(?:/|\Z))[\w.~:@+,=-]+)*/?")
ALWAYS_TOLD = frozenset({401, 402, 429})


class Relay:
    """An ASGI application for one attempt.

    Args:
        root: the provider's address, without ``/v1``.
        key: the real key; None where none is wanted.
        stand_in: the key that the agent was given.
        client: follows no redirects.
    """

    def __init__(
        self, root: str, key: str | None, stand_in: str, meter: Meter, client: httpx.AsyncClient, on_trouble: OnTrouble
    ) -> None:
        self._root = root
        self._key = key
        self._stand_in = f"Bearer {stand_in}".encode()
        self._meter = meter
        self._client = client
        self._on_trouble = on_trouble
        self._redactor = Redactor([key] if key else [])
        self._answers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        if body is None:
            await _error(413, f"The request is larger than {MOST_BODY} bytes.")(scope, receive, send)
            return
        if (reason := self._meter.admit(request.method)) is not None:
            # Agents try again after 429, and ask for another key after 403.
            await _error(400, reason)(scope, receive, send)
            return
        work = asyncio.ensure_future(self._pass_on(request, body, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait({work, gone})
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("maid_proxy_failed", error=type(error).__name__, exc_info=error)

    def _refusal(self, request: Request) -> Response | None:
        said = request.headers.get("authorization", "").encode("latin-1", "replace")
        if not secrets.compare_digest(said, self._stand_in):
            return _error(401, "This is not the key of this attempt.")
        path = request.scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1")
        if not PATH.fullmatch(path):
            return _error(404, "Only paths below /v1 are served.")
        if request.method not in ("GET", "POST"):
            return _error(405, "Only GET and POST are served.")
        return None

    async def _pass_on(self, request: Request, body: bytes, send: Send) -> None:
        query = request.url.query
        url = self._root + request.url.path + (f"?{query}" if query else "")
        upstream = self._client.build_request(
            request.method, url, headers=to_provider(request.scope["headers"], self._key), content=body or None
        )
        try:
            answer = await self._client.send(upstream, stream=True)
        except httpx.HTTPError as error:
            detail = self._tell(0, f"no answer: {_name(error)}")
            await _reply(send, _error(502, f"The provider gave no answer ({detail})."))
            return
        try:
            if answer.is_redirect:
                self._tell(0, f"it sends on to another place ({answer.status_code}), which is not followed")
                await _reply(send, _error(502, "The provider redirects; that is not followed."))
            elif answer.status_code >= 400:
                await self._failed(request.method, answer, send)
            else:
                await self._stream(answer, len(body), request.method, send)
        finally:
            await answer.aclose()

    async def _failed(self, method: str, answer: httpx.Response, send: Send) -> None:
        """Pass an error on, without the key that some providers repeat in it."""
        status, pairs = answer.status_code, answer.headers.raw
        data = b""
        try:
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > MOST_ERROR:
                    break
        except httpx.HTTPError as error:
            data = json.dumps({"error": {"message": f"cut off: {_name(error)}"}}).encode()
        text = self._redactor.text(data[:MOST_ERROR].decode("utf-8", "replace"))
        if status in ALWAYS_TOLD or status >= 500 or method == "POST":
            self._tell(status, _said(text), retry_after(pairs))
        kept = [(name, value) for name, value in to_agent(pairs) if name != b"content-encoding"]
        response = Response(text.encode(), status)
        response.raw_headers += kept
        await _reply(send, response)

    async def _stream(self, answer: httpx.Response, asked: int, method: str, send: Send) -> None:
        """Give an answer on as it comes; one that breaks off breaks off for the agent too."""
        streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
        usage = UsageReader(streamed=streamed, request_bytes=asked)
        size = 0
        await send(
            {"type": "http.response.start", "status": answer.status_code, "headers": to_agent(answer.headers.raw)}
        )
        try:
            async for piece in answer.aiter_raw():
                size += len(piece)
                if size > MOST_ANSWER:
                    self._tell(0, f"the answer is larger than {MOST_ANSWER} bytes")
                    return
                usage.feed(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._answers += method == "POST"
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx.HTTPError as error:
            self._tell(0, f"the answer broke off: {_name(error)}")
        finally:
            if method == "POST":
                self._meter.add(*usage.tokens())

    def _tell(self, status: int, detail: str, wait: float | None = None) -> str:
        detail = self._redactor.text(detail)[:MOST_DETAIL]
        self._on_trouble(ProviderTrouble(status, detail, wait, self._answers))
        return detail


async def _body(request: Request) -> bytes | None:
    """The request's body; None for one that is too large."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MOST_BODY:
            return None
    return bytes(data)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _reply(send: Send, response: Response) -> None:
    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    await response({"type": "http"}, nothing, send)


def _error(status: int, message: str) -> Response:
    """An error in the form of the OpenAI API."""
    error: MutableMapping[str, Any] = {"message": message, "type": "butler_proxy", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


def _said(text: str) -> str:
    """What a provider's error says, in one line."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, dict):
        parts = [error.get(name) for name in ("code", "type", "message")]
        return ": ".join(dict.fromkeys(str(part) for part in parts if isinstance(part, str | int) and part))
    return " ".join(str(error).split())


def _name(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
