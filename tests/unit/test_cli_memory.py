"""`butler memory`: the same memories from the shell (C6)."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from service.cli import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the users owner and ann."""
    for name in ("DATA_DIR", "CONFIG_DIR", "DATABASE_URL"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.setenv("SOME_API_KEY", "sesame-open")
    monkeypatch.chdir(tmp_path)
    assert run(["user", "add", "ann"]) == 0
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert run(["memory", *arguments]) == status
    shown = capsys.readouterr()
    return shown.out if status == 0 else shown.err


def test_a_memory_is_added_listed_changed_forgotten_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    memory_id = told(capsys, "add", "likes [b]tea[/b]", "--user", "ann", "--importance", "8").strip()
    listed = told(capsys, "list", "--user", "ann")
    assert "likes [b]tea[/b]" in listed and memory_id in listed and " 8 " in listed
    told(capsys, "edit", memory_id, "likes mate", "--user", "ann")
    assert "likes mate" in told(capsys, "list", "mate", "--user", "ann")
    told(capsys, "forget", memory_id, "--user", "ann")
    assert memory_id not in told(capsys, "list", "--user", "ann")
    assert "(forgotten) likes mate" in told(capsys, "list", "--all", "--user", "ann")
    assert told(capsys, "undo", memory_id, "--user", "ann").strip() == memory_id


def test_the_export_is_json_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "add", "住在北京", "--user", "ann")
    document = json.loads(told(capsys, "export", "--user", "ann"))
    assert (document["person"], document["memories"][0]["text"]) == ("ann", "住在北京")
    [line] = told(capsys, "export", "--ndjson", "--user", "ann").splitlines()
    assert json.loads(line)["via"] == "cli"


def test_erasing_asks_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told(capsys, "add", "likes tea", "--user", "ann")
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert run(["memory", "erase", "--user", "ann"]) == 3
        assert "Nothing was erased." in capsys.readouterr().out
    assert "likes tea" in told(capsys, "list", "--user", "ann")
    assert "1 memories of ann are erased" in told(capsys, "erase", "--yes", "--user", "ann")
    assert told(capsys, "list", "--all", "--user", "ann") == "Nothing is remembered.\n"


def test_mistakes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no user 'bob'" in told(capsys, "list", "--user", "bob", status=5)
    assert "no memory" in told(capsys, "forget", "NOSUCH22", "--user", "ann", status=5)
    assert "nothing to remember" in told(capsys, "add", " ", "--user", "ann", status=2)
    told(capsys, "edit", "NOSUCH22", "--user", "ann", status=2)


def test_a_secret_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "add", "key sesame-open", "--user", "ann")
    assert "key ***" in told(capsys, "list", "--user", "ann")


def test_a_variable_that_only_the_server_has_is_not_needed(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config").mkdir()
    (home / "config" / "notify.yml").write_text(
        'people:\n  - user: ann\n    urls: ["json://b:${PHONE_WORD}@127.0.0.1:9/"]\n'
    )
    monkeypatch.delenv("PHONE_WORD", raising=False)
    told(capsys, "add", "likes tea", "--user", "ann")
    monkeypatch.setenv("PHONE_WORD", "planted-word-77")
    told(capsys, "add", "says planted-word-77", "--user", "ann")
    listed = told(capsys, "list", "--user", "ann")
    assert "likes tea" in listed and "says ***" in listed
