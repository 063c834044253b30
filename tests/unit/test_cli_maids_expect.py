"""`butler maids run --expect`: the checks of a task, as JSON or from a file (D8, E1)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from service.cli import maids_remote, run
from service.cli.exits import USAGE

CHECKS = {"file_checks": [{"path": "out.txt", "contains": "done"}]}


class Server:
    """Takes what is sent to it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def post(self, path: str, body: Any) -> Any:
        self.sent.append(body)
        return {"maid_run_id": "m-1"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(maids_remote, "remote", lambda: made)
    return made


@pytest.mark.parametrize("way", ["text", "file", "stdin"])
def test_checks_are_sent_as_they_are_given(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    text = json.dumps(CHECKS)
    (tmp_path / "checks.json").write_text(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    given = {"text": text, "file": f"@{tmp_path}/checks.json", "stdin": "@-"}[way]
    assert run(["maids", "run", "work", "do it", "--project", str(tmp_path), "--expect", given]) == 0
    assert server.sent[0]["expect"] == CHECKS


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "no JSON"),
        ("[1]", "expected an object"),
        ("@nowhere.json", "can't be read"),
        ('{"a": 1, "a": 2}', "no JSON"),
    ],
)
def test_what_are_no_checks_is_told_and_nothing_is_sent(
    server: Server, capsys: pytest.CaptureFixture[str], given: str, told: str
) -> None:
    assert run(["maids", "run", "work", "do it", "--expect", given]) == USAGE
    assert told in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert server.sent == []
