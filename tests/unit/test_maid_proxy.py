"""The proxy between a maid and its provider, with a real provider on the loopback interface (D11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from butler.maids.contract import ProviderTrouble, Tokens
from butler.maids.provider import ProviderAccess, ProviderAccessFactory
from config.maid_types import Endpoint, Limits
from service.maidproxy import provider_access
from service.maidproxy.usage import UsageReader

KEY = "sk-real-0123456789"
Json = dict[str, Any]
Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, body: bytes | Json, *headers: str) -> Play:
    """A whole answer with a length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def play(writer: asyncio.StreamWriter) -> None:
        head = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + data)

    return play


def chunks(*pieces: bytes | asyncio.Event, end: bool = True) -> Play:
    """A stream of events; an Event in it is waited for."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n" if end else b"")

    return play


@dataclass
class Provider:
    """Plays what it is told and keeps what it was asked."""

    play: Play = field(default_factory=lambda: answer(200, {"ok": True}))
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            keys = [line.split(": ", 1)[1] for line in head[1:] if line.lower().startswith("authorization")]
            headers["authorization"] = ",".join(keys)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append((head[0], headers, body))
            playing = asyncio.ensure_future(self.play(writer))
            closed = asyncio.ensure_future(reader.read())
            await asyncio.wait({playing, closed}, return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                self.gone.set()
            for task in (playing, closed):
                task.cancel()
            await writer.drain()
        finally:
            writer.close()


@dataclass
class Way:
    """An open access, and all that was told on the side."""

    access: ProviderAccess
    agent: httpx.AsyncClient
    trouble: list[ProviderTrouble]
    limits: list[str]

    async def chat(self, **body: Any) -> httpx.Response:
        return await self.agent.post("/v1/chat/completions", json={"model": "m", **body})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    await server.wait_closed()


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
    assert KEY not in caplog.text


@asynccontextmanager
async def way_to(
    port: int, limits: Limits | None = None, *, key: str | None = KEY, path: str = ""
) -> AsyncIterator[Way]:
    trouble: list[ProviderTrouble] = []
    told: list[str] = []
    endpoint = Endpoint(f"http://127.0.0.1:{port}{path}", api_key_env="REAL_KEY")
    opener: ProviderAccessFactory = provider_access
    async with opener(endpoint, key, limits or Limits(), trouble.append, told.append) as access:
        bearer = {"authorization": f"Bearer {access.key}"}
        async with httpx.AsyncClient(base_url=access.url, headers=bearer, trust_env=False, verify=False) as agent:
            yield Way(access, agent, trouble, told)


async def test_the_real_key_goes_to_the_provider_and_never_to_the_agent(provider: Provider) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 3}
    provider.play = answer(
        200, {"usage": usage}, "set-cookie: a=b", "x-request-id: 7", "content-type: application/json"
    )
    async with way_to(provider.port, path="/v1/") as way:
        hop = {"x-mine": "kept", "connection": "x-hop", "x-hop": "1", "cookie": "c=d", "api-key": "other"}
        said = await way.agent.post("/v1/chat/completions?a=1", json={"model": "m"}, headers=hop)
        assert KEY not in repr(way.access) and way.access.key not in repr(way.access)
        assert way.access.spent() == Tokens(11, 3, 1)
        assert way.trouble == []
    assert (said.status_code, said.json(), said.headers["x-request-id"]) == (200, {"usage": usage}, "7")
    assert "set-cookie" not in said.headers
    (line, headers, body) = provider.asked[0]
    assert line == "POST /v1/chat/completions?a=1 HTTP/1.1"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["host"] == f"127.0.0.1:{provider.port}"
    assert (headers["x-mine"], headers["accept-encoding"], json.loads(body)) == ("kept", "identity", {"model": "m"})
    assert not {"x-hop", "cookie", "api-key"} & set(headers)
    with pytest.raises(httpx.ConnectError):
        await httpx.AsyncClient(trust_env=False, verify=False).get(way.access.url)


async def test_nothing_goes_on_without_the_stand_in_key_or_outside_of_v1(provider: Provider) -> None:
    async with way_to(provider.port) as way:
        for key in ("", f"Bearer {KEY}", "Bearer", way.access.key, "Bearer \xfc"):
            refused = await way.agent.get("/v1/models", headers=[(b"authorization", key.encode("latin-1"))])
            assert refused.status_code == 401
        for path in ("/", "/v1x", "/v2/models", "/v1/../admin", "/v1/%2e%2e/admin", "/v1//a", "/admin/v1", "/v1/a/.."):
            assert await raw_status(way.access, path) == 404, path
        assert (await way.agent.delete("/v1/models")).status_code == 405
        assert provider.asked == []
        assert (await way.agent.get("/v1/models")).status_code == 200
        assert way.access.spent() == Tokens()


async def raw_status(access: ProviderAccess, path: str) -> int:
    """Ask for a path exactly as it is written; clients would tidy it up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(access.url.rpartition(":")[2]))
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {access.key}\r\n\r\n"
    writer.write(head.encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_a_provider_without_a_key_is_sent_none(provider: Provider) -> None:
    async with way_to(provider.port, key=None) as way:
        await way.chat()
    assert provider.asked[0][1]["authorization"] == ""


async def test_a_stream_passes_piece_by_piece_and_its_tokens_are_read(provider: Provider) -> None:
    more = asyncio.Event()
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'
    provider.play = chunks(b'data: {"a":1}\n\n', more, usage[:20], usage[20:], b"data: [DONE]\n\n")
    async with way_to(provider.port) as way:
        async with way.agent.stream("POST", "/v1/chat/completions", json={}) as said:
            pieces = said.aiter_raw()
            assert await anext(pieces) == b'data: {"a":1}\n\n'
            more.set()
            rest = b"".join([piece async for piece in pieces])
        assert rest == usage + b"data: [DONE]\n\n"
        assert way.access.spent() == Tokens(5, 2, 1)


@pytest.mark.parametrize("status", [400, 401, 402, 404, 429, 500, 503])
async def test_trouble_is_told_and_passed_on_without_the_key(provider: Provider, status: int) -> None:
    message = {"error": {"code": "why", "message": f"no\nway for {KEY}"}}
    provider.play = answer(status, message, "content-type: application/json", "retry-after: 3600")
    async with way_to(provider.port) as way:
        said = await way.chat()
        assert said.status_code == status
        assert KEY not in said.text and "way for ***" in said.text
        assert float(said.headers["retry-after"]) == 20
        (trouble,) = way.trouble
        assert (trouble.status, trouble.retry_after) == (status, 3600.0)
        assert trouble.detail.startswith("why: no") and KEY not in trouble.detail
        assert way.access.spent() == Tokens(0, 0, 1)


async def test_a_query_that_is_not_found_is_no_trouble(provider: Provider) -> None:
    provider.play = answer(404, b"no such page")
    async with way_to(provider.port) as way:
        said = await way.agent.get("/v1/models/x")
        assert (said.status_code, said.text, way.trouble) == (404, "no such page", [])


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("retry-after", "3", "3"),
        ("retry-after", "soon", "20"),
        ("retry-after", "inf", "20"),
        ("retry-after", formatdate(4_000_000_000), "20"),
        ("retry-after-ms", "60000", "20000"),
        ("retry-after-ms", "60", "60"),
    ],
)
async def test_no_provider_makes_an_agent_wait_long(provider: Provider, name: str, value: str, given: str) -> None:
    provider.play = answer(429, b"{}", f"{name}: {value}")
    async with way_to(provider.port) as way:
        assert (await way.chat()).headers[name] == given


async def test_a_provider_that_is_down_redirects_or_breaks_off_is_told_with_status_0(provider: Provider) -> None:
    async with way_to(9) as way:
        assert (await way.chat()).status_code == 502
        assert way.trouble[0].status == 0 and "no answer" in way.trouble[0].detail
    async with way_to(provider.port) as way:
        provider.play = answer(307, b"", "location: http://127.0.0.1:9/v1/chat/completions")
        said = await way.chat()
        assert (said.status_code, "location" in said.headers) == (502, False)
        provider.play = chunks(b"data: {}\n\n", end=False)
        with pytest.raises(httpx.RemoteProtocolError):
            await way.chat()

        async def cut(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort")

        provider.play = cut
        with pytest.raises(httpx.RemoteProtocolError):
            await way.chat()
        assert [trouble.status for trouble in way.trouble] == [0, 0, 0]
        assert [trouble.detail.partition(":")[0] for trouble in way.trouble] == [
            "it sends on to another place (307), which is not followed",
            "the answer broke off",
            "the answer broke off",
        ]


async def test_a_provider_that_says_nothing_is_given_up(provider: Provider) -> None:
    never = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        await never.wait()

    provider.play = silent
    async with way_to(provider.port, Limits(silence=0.1)) as way:
        assert (await way.chat()).status_code == 502
        assert [trouble.status for trouble in way.trouble] == [0]


async def test_requests_and_tokens_of_an_attempt_are_bounded(provider: Provider) -> None:
    async with way_to(provider.port, Limits(model_requests=2)) as way:
        assert [(await way.chat()).status_code for _ in range(4)] == [200, 200, 400, 400]
        assert [(await way.agent.get("/v1/models")).status_code for _ in range(9)] == [200] * 8 + [400]
        assert way.access.spent().model_requests == 2
        assert way.limits == ["The attempt has used up what it may ask of its provider: more than 2 model requests."]
    provider.play = answer(200, {"usage": {"input_tokens": 70, "output_tokens": 40}})
    async with way_to(provider.port, Limits(tokens=100)) as way:
        assert (await way.chat()).status_code == 200
        refused = await way.chat()
        assert refused.status_code == 400
        assert "110 tokens of 100" in refused.json()["error"]["message"]
        assert len(way.limits) == 1


async def test_a_body_that_is_too_large_is_refused(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.maidproxy.relay.MOST_BODY", 1000)
    async with way_to(provider.port) as way:
        assert (await way.chat(text="x" * 2000)).status_code == 413
        assert provider.asked == []


async def test_an_agent_that_goes_away_ends_its_request_to_the_provider(provider: Provider) -> None:
    provider.play = chunks(b"data: 1\n\n", asyncio.Event())
    async with way_to(provider.port) as way:
        async with way.agent.stream("POST", "/v1/chat/completions", json={}) as said:
            assert await anext(said.aiter_raw()) == b"data: 1\n\n"
        async with asyncio.timeout(30):
            await provider.gone.wait()
    assert way.trouble == []
    assert way.access.spent().output_tokens == 1


async def test_the_access_closes_while_a_request_is_open(provider: Provider) -> None:
    provider.play = chunks(b"data: 1\n\n", asyncio.Event())
    async with way_to(provider.port) as way:
        request = way.agent.build_request("POST", "/v1/chat/completions", json={})
        said = await way.agent.send(request, stream=True)
        assert await anext(said.aiter_raw()) == b"data: 1\n\n"
    await said.aclose()


def test_tokens_are_guessed_where_nobody_tells_them() -> None:
    reader = UsageReader(streamed=True, request_bytes=400)
    reader.feed(b'data: {"a":1}\n\ndata: {"a"')
    reader.feed(b':2}\n\n: comment\n\ndata: {not json, "usage"}\n\ndata: [DONE]')
    assert reader.tokens() == (100, 4)
    reader = UsageReader(streamed=False, request_bytes=8)
    reader.feed(b"x" * 40)
    assert reader.tokens() == (2, 10)
    reader = UsageReader(streamed=True, request_bytes=8)
    reader.feed(b'data: {"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":8}}}')
    assert reader.tokens() == (9, 8)
