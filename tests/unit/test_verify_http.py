"""URL checks: loopback unless listed, pinned, no redirect to elsewhere, a server that is gone afterwards (D8)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from butler.maids.contract import CheckResult, Verification
from butler.maids.verify.findings import LIMIT, CheckError
from butler.maids.verify.http import BODY_LIMIT
from butler.maids.verify.run import verify
from butler.maids.verify.urls import is_loopback, target_of
from config.maid_types import ExactOutput, HttpCheck, MaidRegistryFile, VerificationProfile
from tests.support.polling import wait_until

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status, headers, body = 200, {}, b"hello world\n"
        if path == "/missing":
            status, body = 404, b"nothing here"
        elif path == "/near":
            status, headers, body = 302, {"Location": "/"}, b""
        elif path == "/round":
            status, headers, body = 302, {"Location": "/round"}, b""
        elif path == "/away":
            status, headers, body = 302, {"Location": self.path.partition("?")[2]}, b""
        elif path == "/host":
            body = self.headers["Host"].encode()
        elif path == "/hang":
            self.server.released.wait(20)  # type: ignore[attr-defined]
        elif path == "/garbage":
            self.wfile.write(b"\0" * 100)
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if path == "/flood":
            self.end_headers()
            self.close_connection = True
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test's own output is enough."""


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = QuietServer(("127.0.0.1", 0), Handler)
    server.released = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.released.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


async def ask(url: str, status: int = 200, body: str | None = None, seconds: float = 10.0, *hosts: str) -> CheckResult:
    profile = VerificationProfile(http_checks=(HttpCheck(url, status, body, seconds),))
    registry = MaidRegistryFile(allowed_hosts=hosts)
    (result,) = (await verify(profile, Path(), registry, ENVIRONMENT, "mark")).checks
    return result


async def test_status_and_body_have_to_be_as_expected(base: str) -> None:
    assert (await ask(base + "/", 200, "hello")).outcome == "passed"
    assert (await ask(base + "/missing", 404)).outcome == "passed"
    wrong = await ask(base + "/", 200, "good-bye")
    assert wrong.outcome == "failed" and "good-bye" in wrong.expected and "hello world" in wrong.actual
    assert "status 404" in (await ask(base + "/missing")).actual


async def test_exact_output_of_a_url_is_its_whole_body(base: str) -> None:
    for expect, outcome in (("hello world\n", "passed"), ("hello world", "failed")):
        profile = VerificationProfile(exact_output=(ExactOutput(expect, url=base + "/"),))
        verification = await verify(profile, Path(), MaidRegistryFile(), ENVIRONMENT, "mark")
        assert verification.outcome == outcome
    profile = VerificationProfile(exact_output=(ExactOutput("nothing here", url=base + "/missing"),))
    assert (await verify(profile, Path(), MaidRegistryFile(), ENVIRONMENT, "mark")).outcome == "failed"


async def test_localhost_is_pinned_to_loopback_and_keeps_its_name(base: str) -> None:
    port = base.rpartition(":")[2]
    assert (await ask(f"http://localhost:{port}/host", 200, f"localhost:{port}")).outcome == "passed"
    assert (await target_of("http://app.localhost./", ())).addresses == ("127.0.0.1", "::1")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "http://127.0.0.1@example.com/", "http://user:pass@127.0.0.1/", "http://0.0.0.0/",
        "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://localhost.example.com/", "file:///etc/passwd",
        "http://[::ffff:10.0.0.1]/", "http://10.0.0.1/", "http://169.254.169.254/", "ftp://127.0.0.1/", "127.0.0.1:80",
        "", "http://", "http://127.0.0.1:99999/", "http://[::1%25lo]/",
    ],
)  # fmt: skip
async def test_a_url_off_loopback_that_is_not_listed_is_an_error_without_a_look_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("looked up"))
    result = await ask(url)
    assert result.outcome == "error"


async def test_a_listed_host_is_looked_up_once_and_asked_at_that_address(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(base.rpartition(":")[2])
    looked_up = []

    def getaddrinfo(host: str, *args: object, **rest: object) -> list[object]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    result = await ask(f"http://app.internal:{port}/host", 200, "app.internal", 10.0, "app.internal")
    assert (result.outcome, looked_up.count("app.internal")) == ("passed", 1)
    assert (await target_of(f"http://app.internal:{port}/", (f"APP.internal:{port}",))).addresses == ("127.0.0.1",)
    with pytest.raises(CheckError):
        await target_of("http://app.internal/", ("app.internal:81", "other.internal"))


async def test_redirects_are_followed_on_the_same_origin_only(base: str) -> None:
    assert (await ask(base + "/near", 200, "hello")).outcome == "passed"
    assert (await ask(base + "/near", 302)).outcome == "passed"
    assert "redirects" in (await ask(base + "/round")).actual
    port = base.rpartition(":")[2]
    for elsewhere in (f"http://localhost:{port}/", "http://127.0.0.1:1/", "//example.com/", "http://u@127.0.0.1:1/"):
        result = await ask(f"{base}/away?{elsewhere}")
        assert result.outcome == "failed" and "not followed" in result.actual, elsewhere


async def test_endless_bodies_silence_and_garbage_come_to_an_end(base: str) -> None:
    flood = await ask(base + "/flood")
    assert flood.outcome == "passed" and f"first {BODY_LIMIT} bytes" in flood.actual and len(flood.actual) <= LIMIT
    assert "longer than 0.3 s" in (await ask(base + "/hang", seconds=0.3)).actual
    assert (await ask(base + "/garbage")).outcome == "failed"
    assert (await ask(f"http://127.0.0.1:{free_port()}/")).outcome == "failed"


def test_only_addresses_are_loopback() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("127.8.8.8") and is_loopback("::1")
    assert is_loopback("::ffff:127.0.0.1")
    assert not any(map(is_loopback, ("0.0.0.0", "::", "::1%lo", "127.1", "localhost", "10.0.0.1", "")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def running(word: str) -> list[int]:
    found = psutil.process_iter(["cmdline", "status"])
    return [p.pid for p in found if word in (p.info["cmdline"] or []) and p.info["status"] != psutil.STATUS_ZOMBIE]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SERVER = textwrap.dedent("""
    import http.server, os, signal, subprocess, sys, time
    port, word, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if how == 'broken':
        sys.exit('no module named web')
    if how == 'mute':
        time.sleep(300)
    if how == 'forks' and os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    if how == 'forks':
        os.setsid()
        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', word], env={}, start_new_session=True)
    http.server.test(http.server.SimpleHTTPRequestHandler, port=port, bind='127.0.0.1')
""")


async def serve(
    tree: Path, port: int, how: str, word: str = "word", ready: float = 10.0, serving: asyncio.Lock | None = None
) -> Verification:
    start = (sys.executable, "-c", SERVER, str(port), word, how)
    profile = VerificationProfile(
        http_checks=(HttpCheck(f"http://127.0.0.1:{port}/index.html", expect_body="hello"),),
        exact_output=(ExactOutput("hello\n", url=f"http://127.0.0.1:{port}/"),),
        start=start,
        ready_within=ready,
    )
    registry = MaidRegistryFile(allowed_commands=(start,))
    return await verify(profile, tree, registry, ENVIRONMENT, f"verify:{uuid.uuid4()}", serving=serving)


@pytest.mark.parametrize("how", ["plain", "forks"])
async def test_a_server_of_the_tree_is_started_asked_and_ended_with_all_it_forked(tmp_path: Path, how: str) -> None:
    (tmp_path / "index.html").write_text("hello\n")
    port, word = free_port(), uuid.uuid4().hex
    verification = await serve(tmp_path, port, how, word)
    assert [(check.kind, check.outcome) for check in verification.checks] == [
        ("start", "passed"), ("http", "passed"), ("exact_output", "passed"),
    ]  # fmt: skip
    assert not listens(port)
    assert running(word) == []


async def test_a_server_that_ends_fails_with_its_last_words_and_its_urls_are_not_asked(tmp_path: Path) -> None:
    verification = await serve(tmp_path, free_port(), "broken")
    assert verification.outcome == "failed"
    assert "exit status 1" in verification.checks[0].actual and "no module named web" in verification.checks[0].actual
    assert [check.outcome for check in verification.checks] == ["failed"] * 3


async def test_a_server_that_never_answers_is_given_its_time_and_ended(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    verification = await serve(tmp_path, free_port(), "mute", word, ready=0.4)
    assert verification.outcome == "failed" and "not ready within 0.4 s" in verification.checks[0].actual
    assert running(word) == []


async def test_a_taken_port_is_an_error_since_another_server_would_be_checked(base: str, tmp_path: Path) -> None:
    verification = await serve(tmp_path, int(base.rpartition(":")[2]), "plain", ready=0.2)
    assert verification.outcome == "error" and "in use already" in verification.checks[0].actual
    assert {check.outcome for check in verification.checks} == {"error"}


async def test_two_verifications_of_one_port_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello\n")
    port = free_port()
    serving = asyncio.Lock()
    both = await asyncio.gather(*(serve(tmp_path, port, "plain", serving=serving) for _ in range(2)))
    assert [one.outcome for one in both] == ["passed", "passed"]


async def test_cancelling_ends_the_server_first(tmp_path: Path) -> None:
    port, word = free_port(), uuid.uuid4().hex
    task = asyncio.ensure_future(serve(tmp_path, port, "mute", word))
    await asyncio.to_thread(wait_until, lambda: running(word), "the server runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(word) == []


async def test_a_server_that_is_not_allowed_or_not_there_is_an_error(tmp_path: Path) -> None:
    check = HttpCheck(f"http://127.0.0.1:{free_port()}/")
    profile = VerificationProfile(http_checks=(check,), start=("no-such-server",))
    refused = await verify(profile, tmp_path, MaidRegistryFile(), ENVIRONMENT, "mark")
    assert refused.outcome == "error" and "allowed_commands" in refused.checks[0].actual
    registry = MaidRegistryFile(allowed_commands=(("no-such-server",),))
    missing = await verify(profile, tmp_path, registry, ENVIRONMENT, "mark")
    assert missing.outcome == "error" and "no program" in missing.checks[0].actual
