"""Each part of an installation broken by hand: the doctor says which, what is wrong and what to do (E5)."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection

from butler.errors import ConfigError
from butler.people import Actor
from butler.storage import audit
from butler.storage.database import Database
from butler.storage.users import add_user, set_disabled
from config.settings import Settings, load_settings
from service.address import write_url
from service.cli import run
from service.doctor import Finding, data_directory
from service.doctor_machine import clock, disk, private_files, studio, versions
from service.doctor_running import agents, server
from service.doctor_traces import traces
from service.house import hold
from tests.support.parts import new_database

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
Answer = tuple[int, bytes]


def told(found: list[Finding]) -> list[tuple[str, str]]:
    """State and everything that is said of each; who finds a fault says what to do."""
    assert all(one.do or one.state == "good" for one in found), found
    return [(one.state, f"{one.detail} ({one.do})") for one in found]


@pytest.mark.parametrize(
    ("free", "state", "part"),
    [(10**8, "bad", "turns will fail"), (10**9, "note", "less than 1 GB"), (10**10, "good", "1 GB or more")],
)
def test_a_full_disk(free: int, state: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
    [(found, said)] = told([disk(tmp_path / "not" / "made" / "yet")])
    assert found == state and part in said
    assert ("BUTLER_DATA_DIR" in said) is (state != "good")


def test_a_data_directory_that_can_not_be_made_or_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    # As root nothing is read-only, so the refusal itself is put in.
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    [(state, said)] = told([data_directory(tmp_path)])
    assert state == "bad" and "can't be written to: Permission denied" in said and "BUTLER_DATA_DIR" in said
    monkeypatch.setattr(os, "access", lambda *_: False)
    [(state, said)] = told([data_directory(tmp_path / "new" / "data")])
    assert state == "bad" and f"{tmp_path} is not writable" in said and "BUTLER_DATA_DIR" in said


def test_files_that_others_can_read(tmp_path: Path) -> None:
    settings = load_settings({"BUTLER_DATA_DIR": str(tmp_path)}, tmp_path)
    assert list(private_files(settings)) == []
    for name in ("owner.token", "links.key", "butler.db", "checkpoints.db"):
        (tmp_path / name).touch(mode=0o600)
    assert list(private_files(settings)) == []
    (tmp_path / "owner.token").chmod(0o644)
    (tmp_path / "links.key").chmod(0o660)
    assert told(list(private_files(settings))) == [
        ("bad", f"{tmp_path}/owner.token is open to others (mode 0644) (run: chmod 600 {tmp_path}/owner.token)"),
        ("bad", f"{tmp_path}/links.key is open to others (mode 0660) (run: chmod 600 {tmp_path}/links.key)"),
    ]


def test_a_clock_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    assert clock(path, NOW).state == "good"
    assert clock(path, datetime(1999, 1, 1, tzinfo=UTC)).state == "bad"
    with database(path) as opened:
        opened.write_now(lambda connection: audit.record(connection, "shown", actor="t", via="test"))
    row = datetime.now(UTC)
    assert clock(path, row - timedelta(minutes=4)).state == "good"
    [(state, said)] = told([clock(path, row - timedelta(minutes=6))])
    assert state == "bad" and "the newest audit row is from" in said and "set the machine's clock" in said
    path.write_text("no database")
    assert clock(path, NOW).state == "good"


def test_packages_that_are_missing_or_others_than_tested(tmp_path: Path) -> None:
    pinned, have = tmp_path / "requirements.txt", {"a": "1", "b": "2"}

    def installed(name: str) -> str:
        if name not in have:
            raise PackageNotFoundError(name)
        return have[name]

    assert "compare" in versions(pinned, installed).detail
    pinned.write_text("# why\na==1\nb==2 ; python_version > '3'\n")
    assert "2 packages are as pinned" in versions(pinned, installed).detail
    have["b"] = "3"
    assert told([versions(pinned, installed)]) == [
        ("note", "not what Butler was tested with: b 3 instead of 2 (run: make install)")
    ]
    pinned.write_text("".join(f"p{number}==1\n" for number in range(8)))
    assert told([versions(pinned, installed)]) == [
        ("bad", "not installed: p0, p1, p2, p3, p4 and 3 more (run: make install)")
    ]


def test_without_studio_nothing_is_wrong() -> None:
    assert studio(lambda _name: None).state == studio(lambda name: name).state == "good"


class database:
    """A new database, closed at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Database:
        self._open = new_database(self._path)
        return self._open

    def __exit__(self, *_: object) -> None:
        self._open.close()


def three_agents(connection: Connection, by: Actor) -> None:
    """One that may connect, one whose token has ended, and one that is shut out."""
    for name in ("seven", "eight", "gone"):
        add_user(connection, name, "agent", by)
    set_disabled(connection, "gone", True, by)
    ended = "UPDATE tokens SET expires_at = '2020' WHERE user_id = (SELECT user_id FROM users WHERE name = 'eight')"
    connection.exec_driver_sql(ended)


def test_agents_are_named_and_those_that_can_not_connect(tmp_path: Path) -> None:
    path, by = tmp_path / "butler.db", Actor("owner", "test")
    assert list(agents(path)) == []
    with database(path) as opened:
        assert list(agents(path)) == []
        opened.write_now(partial(three_agents, by=by))
    assert told(list(agents(path))) == [
        ("note", "'eight' has no token, so it can't connect (run: butler user token create eight)"),
        ("good", "2 known: eight (never seen), seven (never seen) ()"),
    ]


@pytest.fixture
def answering() -> Iterator[Callable[[Answer], str]]:
    """A server that gives the same answer to everything; its address."""
    made: list[ThreadingHTTPServer] = []

    def make(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(answer[0])
                self.send_header("content-length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent."""

        made.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=made[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{made[-1].server_address[1]}"

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"BUTLER_DATA_DIR": str(tmp_path), "BUTLER_OWNER_TOKEN": "owner-token"}, tmp_path)


def ready(**checks: object) -> bytes:
    return json.dumps({"checks": checks}).encode()


@pytest.mark.parametrize(
    ("answer", "state", "part"),
    [
        ((200, ready(model={"ok": True}, agents={"ok": True, "detail": "1 connected"})), "good", "is ready"),
        ((503, ready(model={"ok": False, "detail": "no answer"})), "bad", "not ready: model: no answer"),
        ((401, b"{}"), "note", "does not take the token"),
        ((200, b"<html>"), "bad", "no Butler"),
        (None, "bad", "does not answer: ConnectError"),
    ],
)
def test_a_server_that_runs(
    answer: Answer | None, state: str, part: str, settings: Settings, answering: Callable[[Answer], str]
) -> None:
    lock = hold(settings.data_dir / "server.lock")
    try:
        write_url(settings.data_dir, answering(answer) if answer else "http://127.0.0.1:9")
        found = list(server(settings))
    finally:
        os.close(lock)
    assert found[0].state == state and part in found[0].detail
    assert [(one.name, one.detail) for one in found[1:]] == ([("agents", "1 connected")] if state == "good" else [])


def test_the_token_is_not_sent_to_another_machine(settings: Settings) -> None:
    lock = hold(settings.data_dir / "server.lock")
    try:
        write_url(settings.data_dir, "http://192.0.2.7:8710")
        [(state, said)] = told(list(server(settings)))
    finally:
        os.close(lock)
    assert state == "bad" and "not on this machine" in said


def test_a_server_that_does_not_run_is_no_fault(settings: Settings) -> None:
    assert told(list(server(settings))) == [("note", "none runs on this data directory (start it: make run)")]
    (settings.data_dir / "server.lock").touch()
    write_url(settings.data_dir, "http://127.0.0.1:9")
    [(state, said)] = told(list(server(settings)))
    assert state == "note" and "server.url is left over from one that was killed" in said


def test_a_look_at_the_lock_does_not_keep_a_server_from_starting(tmp_path: Path) -> None:
    looking = os.open(tmp_path / "server.lock", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    timer = threading.Timer(0.05, os.close, [looking])
    timer.start()
    lock = hold(tmp_path / "server.lock")
    timer.join()
    try:
        with pytest.raises(ConfigError, match="another Butler serves"):
            hold(tmp_path / "server.lock")
    finally:
        os.close(lock)


OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("status", "state", "part"),
    [(200, "good", "takes them"), (401, "bad", "OTEL_EXPORTER_OTLP_HEADERS"), (404, "bad", "takes no traces"),
     (503, "bad", "HTTP 503")],
)  # fmt: skip
def test_a_receiver_of_traces_that_answers(
    status: int, state: str, part: str, answering: Callable[[Answer], str]
) -> None:
    [(found, said)] = told(list(traces({OTLP: answering((status, b""))}, lambda name: name)))
    assert found == state and part in said


@pytest.mark.parametrize(
    ("environ", "there", "part"),
    [
        ({OTLP: "http://user:hidden@127.0.0.1:9"}, True, "127.0.0.1:9 does not answer: ConnectError (start the rec"),
        ({OTLP: "http://127.0.0.1:9"}, False, "not installed (run: pip install 'butler[otel]')"),
        ({OTLP: "http://[", }, True, "does not answer"),
        ({OTLP: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, True, "does not speak grpc"),
        ({"OBSERVABILITY_COZELOOP_ENABLED": "true", "COZELOOP_WORKSPACE_ID": "1"}, True, "set COZELOOP_API_TOKEN, or"),
    ],
)  # fmt: skip
def test_traces_that_do_not_arrive(environ: dict[str, str], there: bool, part: str) -> None:
    [(state, said)] = told(list(traces(environ, lambda name: name if there else None)))
    assert state == "bad" and part in said and "hidden" not in said


def test_cozeloop_that_is_not_installed_or_does_not_answer(answering: Callable[[Answer], str]) -> None:
    environ = {"OBSERVABILITY_COZELOOP_ENABLED": "true", "COZELOOP_WORKSPACE_ID": "1", "COZELOOP_API_TOKEN": "coze-1"}
    [(_, said)] = told(list(traces(environ, lambda _name: None)))
    assert "pip install 'butler[cozeloop]'" in said
    environ["COZELOOP_API_BASE_URL"] = "http://127.0.0.1:9"
    assert told(list(traces(environ, lambda name: name)))[0][0] == "bad"
    environ["COZELOOP_API_BASE_URL"] = answering((404, b""))
    assert told(list(traces(environ, lambda name: name)))[0][0] == "good"
    assert told(list(traces({}))) == [
        ("good", "off as set here; OTEL_EXPORTER_OTLP_ENDPOINT or CozeLoop switches them on ()")
    ]


def test_as_json_each_finding_has_part_state_detail_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BASE_URL", "MODEL", "FALLBACK_MODEL", "API_TOKEN", "DATA_DIR", "CONFIG_DIR", "DATABASE_URL"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    assert run(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert all(one.keys() == {"name", "state", "detail", "do"} for one in answer["items"])
    parts = {one["name"] for one in answer["items"]}
    assert parts >= {"configuration", "data directory", "database", "disk", "notifications", "model", "server"}
    assert parts >= {"traces", "clock", "versions", "studio"}
    (tmp_path / ".butler").mkdir(mode=0o755)
    assert run(["doctor", "--json"]) == 5
    answer = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in answer["items"] if one["state"] == "bad"] == ["data directory"]
    assert answer["ok"] is False
