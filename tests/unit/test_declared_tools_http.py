"""Declared HTTP calls: what is sent, what comes back, and what an argument can't do."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from butler.tools.declared import declared_toolset
from butler.tools.output import LIMIT, TAIL
from butler.types import Invocation, ToolResult
from config.tools_file import load_tools_file

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: str = "200 OK", body: bytes = b"fine", extra: str = "") -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return write


@dataclass
class Hook:
    """A server that notes the bytes of each request and answers as told."""

    answer: Answer = field(default_factory=answer)
    port: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
            self.requests.append(head + body)
            await self.answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.requests.append(b"")
        finally:
            writer.close()

    @property
    def line(self) -> str:
        return self.requests[-1].split(b"\r\n")[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.requests[-1].split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].split(b"\r\n\r\n", 1)[1])


@asynccontextmanager
async def serving(hook: Hook) -> AsyncIterator[Hook]:
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0)
    hook.port = server.sockets[0].getsockname()[1]
    try:
        yield hook
    finally:
        server.close()


async def call(
    folder: Path,
    http: dict[str, Any],
    environ: dict[str, str] | None = None,
    seconds: float = 10,
    **args: Any,
) -> ToolResult:
    schema = {"type": "object", "properties": dict.fromkeys(["text", "other"], True)}
    entry = {"name": "tool", "description": "d", "input_schema": schema, "http": http, "timeout": seconds}
    path = folder / "tools.yml"
    path.write_text(yaml.safe_dump({"tools": [entry]}), "utf-8")
    variables = environ or {}
    (spec,) = declared_toolset(load_tools_file(path, variables), variables).specs
    return await spec.run(Invocation("act-1", "tool", args, "thread", "run", "ada"))


async def test_the_call_of_the_contract_is_sent_with_key_token_and_body(tmp_path: Path) -> None:
    async with serving(Hook()) as hook:
        http = {
            "method": "POST",
            "url": f"http://127.0.0.1:{hook.port}/note",
            "json": {"text": "{text}"},
            "headers": {"Authorization": "Bearer ${HOOK_TOKEN}"},
        }
        result = await call(tmp_path, http, {"HOOK_TOKEN": "tök"}, text="hällo")
    assert result == ToolResult("fine")
    assert hook.line == "POST /note HTTP/1.1"
    assert hook.body == {"text": "hällo"}
    sent = {name: hook.headers[name] for name in ("authorization", "idempotency-key", "content-type")}
    assert sent == {
        "authorization": "Bearer tök",
        "idempotency-key": "act-1",
        "content-type": "application/json",
    }


@pytest.mark.parametrize(
    ("template", "args", "body"),
    [
        ({"a": "{text}"}, {"text": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ({"a": "n={text}"}, {"text": 5}, {"a": "n=5"}),
        ({"a": "{text}", "b": ["{other}", 1, True]}, {}, {"b": [1, True]}),
        ({"a": "-{text}-{{x}}"}, {}, {"a": "--{x}"}),
        ("{text}", {"text": {"deep": 1.5}}, {"deep": 1.5}),
        (["{text}", "{text}"], {"text": None}, [None, None]),
    ],
)
async def test_a_whole_argument_keeps_its_type_in_the_body(
    template: Any, args: dict[str, Any], body: Any, tmp_path: Path
) -> None:
    async with serving(Hook()) as hook:
        await call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/", "json": template}, **args)
    assert hook.body == body


async def test_arguments_in_the_url_are_percent_encoded(tmp_path: Path) -> None:
    async with serving(Hook()) as hook:
        url = f"http://127.0.0.1:{hook.port}/x/{{text}}?q={{other}}"
        result = await call(tmp_path, {"method": "GET", "url": url}, text="a/b?c#d ü", other="&x=1\r\nA: b")
    assert result == ToolResult("fine")
    assert hook.line == "GET /x/a%2Fb%3Fc%23d%20%C3%BC?q=%26x%3D1%0D%0AA%3A%20b HTTP/1.1"
    assert "content-length" not in hook.headers


@pytest.mark.parametrize(
    ("http", "text", "part"),
    [
        ({"headers": {"X-Text": "{text}"}}, "a\r\nX-Other: b", "control character"),
        ({"headers": {"X-Text": "{text}"}}, "a\0", "control character"),
        ({"path": "/x/{text}/y"}, "..", "change the path"),
        ({"path": "/x/{text}"}, ".", "change the path"),
        ({"json": "{text}"}, float("nan"), "not JSON compliant"),
        ({"path": "/{text}"}, "\ud800", "surrogates"),
    ],
)
async def test_an_argument_that_would_leave_its_place_is_not_sent(
    http: dict[str, Any], text: Any, part: str, tmp_path: Path
) -> None:
    async with serving(Hook()) as hook:
        url = f"http://127.0.0.1:{hook.port}{http.pop('path', '/')}"
        result = await call(tmp_path, {"url": url, **http}, text=text)
    assert result.is_error
    assert result.text.startswith("The call was not made: ")
    assert part in result.text
    assert hook.requests == []


async def test_a_status_of_400_and_above_is_an_error_with_the_end_of_the_answer(tmp_path: Path) -> None:
    async with serving(Hook(answer("422 No", b"x" * 20_000 + b" the cause"))) as hook:
        result = await call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/"})
    assert result.is_error
    assert result.text.startswith("The call failed with HTTP status 422.\n[output cut: only the last 8192 of 20010")
    assert result.text.endswith("x the cause")
    assert len(result.text) < TAIL + 200


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with serving(Hook(answer("302 Found", b"", "Location: /other\r\n"))) as hook:
        result = await call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/"})
    said = "The call failed with HTTP status 302. It was redirected, and redirects are not followed."
    assert result == ToolResult(said, is_error=True)
    assert len(hook.requests) == 1


async def test_an_endless_answer_is_cut_while_it_comes(tmp_path: Path) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nstart ")
        while True:
            writer.write(b"y" * 65_536)
            await writer.drain()

    async with serving(Hook(endless)) as hook:
        result = await call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/"})
    assert not result.is_error
    assert result.text.startswith("start y")
    assert result.text.endswith(f"y\n[output cut after {LIMIT} bytes]")
    assert len(result.text) < LIMIT + 100


async def test_no_answer_in_time_is_an_error_that_says_it_may_have_happened(tmp_path: Path) -> None:
    released = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        await released.wait()

    async with serving(Hook(silent)) as hook:
        started = time.monotonic()
        result = await call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/"}, seconds=0.2)
        assert time.monotonic() - started < 20
        released.set()
    assert result.is_error
    assert "no answer within 0.2 s; it may have taken effect nevertheless" in result.text


async def test_a_server_that_is_not_there_is_an_error_result(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        result = await call(tmp_path, {"url": url})
    assert result.is_error
    assert result.text.startswith("The call failed: 127.0.0.1: ")


async def test_a_call_that_is_cancelled_stays_cancelled(tmp_path: Path) -> None:
    arrived, released = asyncio.Event(), asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await released.wait()

    async with serving(Hook(silent)) as hook:
        task = asyncio.create_task(call(tmp_path, {"url": f"http://127.0.0.1:{hook.port}/"}))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        released.set()


async def test_a_proxy_of_the_environment_does_not_see_calls_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with serving(Hook()) as hook:
        assert await call(tmp_path, {"url": f"http://localhost:{hook.port}/"}) == ToolResult("fine")
