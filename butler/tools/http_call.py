"""Running a declared HTTP call: no redirects, bounded answer, arguments that stay in place (E4, F2)."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from butler.argtext import text_of
from butler.tools.output import LIMIT, Output
from butler.types import Invocation, Json, ToolResult, ToolRunner
from config.templates import Template
from config.tools_file import HttpDefinition, ToolDefinition

MAX_ERROR_BYTES = 1 << 20
"""How much of an error's answer is read to find its end."""


def http_runner(definition: ToolDefinition, environ: Mapping[str, str]) -> ToolRunner:
    """Give the function that makes a tool's HTTP call, with the action id as Idempotency-Key.

    Args:
        environ: the variables in force, for each ``${NAME}``.
    """
    http = definition.http
    if http is None:
        raise ValueError(f"the tool {definition.name!r} makes no HTTP call")
    # Loading the certificates takes a while: once, and only when a call needs them.
    context: list[ssl.SSLContext] = []

    def certificates() -> ssl.SSLContext:
        if not context:
            context.append(ssl.create_default_context())
        return context[0]

    async def run(invocation: Invocation) -> ToolResult:
        try:
            request = _request(http, invocation, environ)
        except (ValueError, httpx.InvalidURL) as error:
            return ToolResult(f"The call was not made: {error}.", is_error=True)
        try:
            async with asyncio.timeout(definition.timeout):
                return await _call(request, certificates)
        except TimeoutError:
            return _failed(f"no answer within {definition.timeout:g} s; it may have taken effect nevertheless")
        except (httpx.ConnectError, httpx.RemoteProtocolError) as error:
            return _failed(f"{request.url.host}: {error}")
        except (httpx.HTTPError, OSError) as error:
            return _failed(f"{request.url.host}: {type(error).__name__}")

    return run


def _failed(why: str) -> ToolResult:
    return ToolResult(f"The call failed: {why}.", is_error=True)


def _request(http: HttpDefinition, invocation: Invocation, environ: Mapping[str, str]) -> httpx.Request:
    args = invocation.args

    def variable(name: str) -> str:
        if not environ.get(name):
            raise ValueError(f"the environment variable {name!r} is not set")
        return environ[name]

    def argument(name: str) -> str:
        return text_of(args[name]) if name in args else ""

    url = http.url.fill(lambda name: quote(argument(name), safe=""), variable)
    if any(segment in (".", "..") for segment in urlsplit(url).path.split("/")):
        raise ValueError("an argument would change the path of the URL")
    headers = {name: _header(name, value.fill(argument, variable)) for name, value in http.headers.items()}
    if not any(name.lower() == "user-agent" for name in headers):
        headers["User-Agent"] = b"butler"
    headers["Idempotency-Key"] = _header("Idempotency-Key", invocation.action_id)
    content = None
    if http.json is not None:
        body = _json(http.json, args, lambda template: template.fill(argument, variable))
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = b"application/json"
    encoded = [(name.encode("ascii"), value) for name, value in headers.items()]
    return httpx.Request(http.method, url, headers=encoded, content=content)


def _header(name: str, value: str) -> bytes:
    # A line end would let an argument add headers or a second request.
    if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
        raise ValueError(f"the value of the header {name!r} would hold a control character")
    return value.strip().encode("utf-8")


_LEFT_OUT = object()


def _json(value: Any, args: Json, fill: Callable[[Template], str]) -> Any:
    """Fill in a body; an item that is one whole argument keeps its type, or is left out if missing."""
    if isinstance(value, Template):
        name = value.whole_argument
        return args.get(name, _LEFT_OUT) if name is not None else fill(value)
    if isinstance(value, list):
        items = [_json(item, args, fill) for item in value]
        return [item for item in items if item is not _LEFT_OUT]
    if isinstance(value, dict):
        pairs = {key: _json(item, args, fill) for key, item in value.items()}
        return {key: item for key, item in pairs.items() if item is not _LEFT_OUT}
    return value


async def _call(request: httpx.Request, certificates: Callable[[], ssl.SSLContext]) -> ToolResult:
    # Over plain HTTP nothing is verified and redirects are not followed, so no certificates are loaded.
    verify = certificates() if request.url.scheme == "https" else False
    proxies = not _is_loopback(request.url.host)
    async with httpx.AsyncClient(verify=verify, timeout=None, follow_redirects=False, trust_env=proxies) as client:
        response = await client.send(request, stream=True)
        try:
            return await _result(response)
        finally:
            await response.aclose()


async def _result(response: httpx.Response) -> ToolResult:
    failed = response.status_code >= 300
    output = Output()
    async for chunk in response.aiter_bytes(16_384):
        output.add(chunk)
        if output.total > (MAX_ERROR_BYTES if failed else LIMIT):
            break
    if not failed:
        return ToolResult(output.beginning())
    head = f"The call failed with HTTP status {response.status_code}."
    if response.status_code < 400:
        head += " It was redirected, and redirects are not followed."
    tail = output.tail()
    return ToolResult(f"{head}\n{tail}" if tail else head, is_error=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
