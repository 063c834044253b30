"""MCP servers at an address: a real one of the official SDK, and some that answer what they should not (E3, F2)."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from config.mcp_file import McpServerDefinition
from tests.support.mcp_links import bench
from tests.support.polling import wait_until

ROOT = Path(__file__).resolve().parents[2]


def at(url: str, name: str = "far", **changes: Any) -> McpServerDefinition:
    given: dict[str, Any] = {
        "name": name, "source": "mcp.json:2", "enabled": True, "url": url, "timeout": 5.0, "startup_timeout": 30.0,
    }  # fmt: skip
    return McpServerDefinition(**given | changes)


class Served:
    """The sample server as a process at one port."""

    def __init__(self, log: Path) -> None:
        self.log = log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        args = [sys.executable, "-m", "tests.support.mcp_server", str(self.log), "--http", str(self.port)]
        self.process = subprocess.Popen(args, env=environ, stderr=subprocess.DEVNULL)
        wait_until(self._listens, "the server listens")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "http.log")
    yield made
    made.kill()


async def test_a_real_server_serves_dies_and_is_found_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("butler.mcp.link.IDLE_SECONDS", 0.0)
    monkeypatch.setattr("butler.mcp.link.FRESH_SECONDS", 0.1)
    await asyncio.to_thread(served.start)
    async with bench(at(served.url), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert (standing.state, standing.tools) == ("connected", 10)
        assert (await house.call("far__note", text="a"))["untrusted_result"] == "noted a"
        house.changed.clear()
        await house.call("far__renew", word="second")
        async with asyncio.timeout(10):
            await house.changed.wait()
        note = house.registry.get("far__note")
        assert note is not None and "second" in note.description
        served.kill()
        await asyncio.to_thread(served.start)
        # The new process does not know the session; the call finds out before it is sent, and is sent once.
        assert (await house.call("far__note", text="b"))["untrusted_result"] == "noted b"
        served.kill()
        assert "not connected" in (await house.call("far__note", text="c"))["error"]
        assert [line for line in served.log.read_text().splitlines() if line.startswith("note")] == ["note a", "note b"]


class Liar(ThreadingHTTPServer):
    """Answers the handshake properly, and calls in the way of its `mode`."""

    daemon_threads = True

    def __init__(self, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.mode = mode
        self.calls = 0
        self.begun = 0
        self.opened = 0
        self.lost = False
        self.headers: list[dict[str, str]] = []
        self.let_go = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Liar

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self.server.opened += 1
        if self.server.mode == "reopens":
            return self.reply(200, b"retry: 0\n\n", "text/event-stream")
        return self.reply(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self.reply(405, b"", "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.headers.append({key.lower(): value for key, value in self.headers.items()})
        mode, method = self.server.mode, body.get("method")
        if method is None or method.startswith("notifications/"):
            return self.reply(202, b"", "application/json")
        if mode == "forgets" and method == "tools/call" and self.server.calls == 0:
            self.server.calls += 1
            return self.reply(404, b"no such session", "text/plain")
        if mode == "forgets-in-json" and method == "tools/call" and self.server.calls == 0:
            self.server.calls += 1
            return self.refusal(404, -32001, "Session not found")
        self.server.lost |= mode == "wants-a-session" and self.server.begun == 1 and method == "tools/call"
        if self.server.lost and method != "initialize" and self.server.begun == 1:
            return self.refusal(400, -32000, "Bad Request: No valid session ID provided")
        if mode in ("401", "404"):
            return self.reply(int(mode), b"no", "text/plain")
        if mode == "elsewhere":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:9/mcp")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        if method == "initialize":
            self.server.begun += 1
            info = {"name": "liar", "version": "1"}
            version = body["params"]["protocolVersion"]
            hello = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            return self.result(body, hello, **{"Mcp-Session-Id": f"s{self.server.begun}"})
        if method == "tools/list":
            schema = {"type": "object", "properties": {}}
            return self.result(body, {"tools": [{"name": "go", "inputSchema": schema}]})
        if method == "ping":
            return self.result(body, {})
        self.server.calls += 1
        return self.misbehave(body, mode)

    def misbehave(self, body: dict[str, Any], mode: str) -> None:
        fine: dict[str, Any] = {"content": [{"type": "text", "text": "fine"}]}
        match mode if self.server.calls == 1 else "fine":
            case "huge":
                self.result(body, {"content": [{"type": "text", "text": "x" * (6 << 20)}]})
            case "packed":
                packed = gzip.compress(b"x" * (64 << 20))
                self.reply(200, packed, "application/json", **{"Content-Encoding": "gzip"})
            case "no-json":
                self.reply(200, b"{oops", "application/json")
            case "html":
                self.reply(200, b"<h1>Login</h1>", "text/html")
            case "500":
                self.reply(500, b"trouble", "text/plain")
            case "hang":
                self.server.let_go.wait(20)
            case "breaks-off":
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"{")
                self.close_connection = True
            case "hangs-up":
                self.close_connection = True
            case "one-hangs-up":
                self.server.let_go.wait(20)
                self.result(body, fine)
            case "endless":
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                line = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress",
                                   "params": {"progressToken": 1, "progress": 1}})  # fmt: skip
                try:
                    while True:
                        self.wfile.write(f"event: message\ndata: {line}\n\n".encode())
                except OSError:
                    self.close_connection = True
            case _ if mode == "one-hangs-up" and self.server.calls == 2:
                self.close_connection = True
            case _:
                self.result(body, fine)

    def refusal(self, status: int, code: int, message: str) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})
        self.reply(status, text.encode(), "application/json")

    def result(self, body: dict[str, Any], result: dict[str, Any], **headers: str) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result})
        self.reply(200, text.encode(), "application/json", **headers)

    def reply(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


@pytest.fixture
def liar(request: pytest.FixtureRequest) -> Iterator[Liar]:
    made = Liar(request.param)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.let_go.set()
    made.shutdown()
    made.server_close()
    thread.join(5)


@pytest.mark.parametrize(
    "liar",
    ["huge", "packed", "no-json", "html", "500", "hang", "endless", "breaks-off", "hangs-up"],
    indirect=True,
)
async def test_an_answer_that_is_none_leaves_it_open_what_was_done_and_the_next_call_is_answered(
    liar: Liar, tmp_path: Path
) -> None:
    async with bench(at(liar.url, timeout=1.0), data=tmp_path) as house:
        first = await house.result("far__go")
        assert first.is_error and "whether it was carried out is unknown" in json.loads(first.text)["error"]
        told = await house.call("far__go")
        assert told.get("untrusted_result") == "fine", told
        assert liar.calls == 2


@pytest.mark.parametrize("liar", ["one-hangs-up"], indirect=True)
async def test_a_connection_that_breaks_in_one_call_costs_no_other_call(liar: Liar, tmp_path: Path) -> None:
    async with bench(at(liar.url, timeout=20.0), data=tmp_path) as house:
        beside = asyncio.create_task(house.call("far__go"))
        async with asyncio.timeout(5):
            while not liar.calls:  # noqa: ASYNC110 - another thread sets no event
                await asyncio.sleep(0.01)
        told = await asyncio.wait_for(house.call("far__go"), 15)
        assert "ended before an answer" in told["error"]
        liar.let_go.set()
        assert (await beside)["untrusted_result"] == "fine"
        assert liar.begun == 1


@pytest.mark.parametrize("liar", ["reopens"], indirect=True)
async def test_a_stream_that_ends_at_once_is_not_opened_again_without_end(liar: Liar, tmp_path: Path) -> None:
    async with bench(at(liar.url), data=tmp_path) as house:
        began = time.monotonic()
        for _ in range(30):
            assert (await house.call("far__go"))["untrusted_result"] == "fine"
        assert liar.opened <= 3 + time.monotonic() - began


@pytest.mark.parametrize(
    ("liar", "why"),
    [
        ("401", "it answers 401: correct what 'headers' send"),
        ("404", "it answers 404: is 'url' the address of a streamable HTTP endpoint?"),
        ("elsewhere", "it redirects to another place, which is not followed: correct 'url'"),
    ],
    indirect=["liar"],
)
async def test_a_server_that_can_not_be_used_says_what_to_do(liar: Liar, why: str, tmp_path: Path) -> None:
    async with bench(at(liar.url), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert (standing.state, standing.why) == ("down", why)


@pytest.mark.parametrize("liar", ["fine"], indirect=True)
async def test_the_headers_of_the_entry_go_with_every_request(liar: Liar, tmp_path: Path) -> None:
    async with bench(at(liar.url, headers={"Authorization": "Bearer s3cret"}), data=tmp_path) as house:
        await house.call("far__go")
    assert len(liar.headers) >= 4
    assert {one.get("authorization") for one in liar.headers} == {"Bearer s3cret"}
    assert {one["accept-encoding"] for one in liar.headers} == {"identity"}


@pytest.mark.parametrize("liar", ["forgets", "forgets-in-json"], indirect=True)
async def test_a_call_to_a_forgotten_session_is_not_sent_again_and_the_session_is_begun_anew(
    liar: Liar, tmp_path: Path
) -> None:
    async with bench(at(liar.url), data=tmp_path) as house:
        assert "call again" in (await house.call("far__go"))["error"]
        assert liar.calls == 1
        assert (await house.call("far__go"))["untrusted_result"] == "fine"
        assert (liar.calls, liar.begun) == (2, 2)


@pytest.mark.parametrize("liar", ["wants-a-session"], indirect=True)
async def test_a_server_that_wants_another_session_gets_one_before_the_next_call(liar: Liar, tmp_path: Path) -> None:
    async with bench(at(liar.url), data=tmp_path) as house:
        assert "No valid session" in (await house.call("far__go"))["untrusted_error"]
        assert (await house.call("far__go"))["untrusted_result"] == "fine"
        assert (liar.calls, liar.begun) == (1, 2)


async def test_an_address_where_nobody_listens_is_down(tmp_path: Path) -> None:
    async with bench(at("http://127.0.0.1:9/mcp"), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert standing.state == "down" and standing.why.startswith("127.0.0.1: ")
