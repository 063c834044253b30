"""`butler user` and `butler user token` in this process."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from butler.storage.audit import Filter, read_rows
from butler.storage.database import Database
from butler.storage.tokens import user_of_token
from service.cli import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings of the caller's, and two users in it."""
    for name in ("DATA_DIR", "CONFIG_DIR", "DATABASE_URL", "OWNER_TOKEN"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.setenv("LOGNAME", "op")
    monkeypatch.chdir(tmp_path)
    assert run(["user", "add", "ada", "--role", "admin"]) == 0
    assert run(["user", "add", "ann"]) == 0
    return tmp_path


def last_line(capsys: Capture) -> str:
    return capsys.readouterr().out.rstrip("\n").splitlines()[-1]


def name_of(token: str) -> str | None:
    database = Database(Path(".butler/butler.db"))
    person = database.write_now(lambda c: user_of_token(c, token))
    database.close()
    return person.name if person else None


def test_a_new_token_stands_alone_on_the_last_line_and_works(capsys: Capture) -> None:
    assert run(["user", "token", "create", "ann", "--label", "phone", "--expires-in", "30"]) == 0
    assert name_of(last_line(capsys)) == "ann"
    assert run(["user", "token", "list", "ann", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [token["label"] for token in listed] == ["", "phone"]
    assert listed[0]["expires_at"] is None and listed[1]["expires_at"] is not None
    assert all(len(token["token_id"]) == 8 for token in listed)


def test_how_long_a_token_works_is_days_or_has_a_unit(capsys: Capture) -> None:
    for text in ("2", "2d", "48h"):
        assert run(["user", "token", "create", "ann", "--label", text, "--expires-in", text]) == 0
    assert run(["user", "token", "create", "ann", "--expires-in", "0"]) == 2
    capsys.readouterr()
    run(["user", "token", "list", "ann", "--json"])
    made = [token for token in json.loads(capsys.readouterr().out) if token["label"]]
    spans = [datetime.fromisoformat(one["expires_at"]) - datetime.fromisoformat(one["created_at"]) for one in made]
    assert [round(span.total_seconds()) for span in spans] == [172_800] * 3


def test_a_rotated_token_ends_and_its_follower_works(capsys: Capture) -> None:
    run(["user", "token", "create", "ann", "--label", "phone"])
    old = last_line(capsys)
    run(["user", "token", "list", "ann", "--json"])
    token_id = json.loads(capsys.readouterr().out)[1]["token_id"]
    assert run(["user", "token", "rotate", "ann", token_id]) == 0
    new = last_line(capsys)
    assert (name_of(old), name_of(new)) == (None, "ann")
    assert run(["user", "token", "rotate", "ann"]) == 0
    assert (name_of(new), name_of(last_line(capsys))) == (None, "ann")


def test_tokens_are_revoked_one_by_one_or_all(capsys: Capture) -> None:
    run(["user", "token", "create", "ann"])
    token = last_line(capsys)
    run(["user", "token", "list", "ann", "--json"])
    extra = next(one for one in json.loads(capsys.readouterr().out) if one["label"] == "extra")
    assert run(["user", "token", "revoke", "ann", extra["token_id"]]) == 0
    assert name_of(token) is None
    assert run(["user", "token", "revoke", "ann", "--all"]) == 0
    run(["user", "token", "list", "ann", "--json"])
    assert json.loads(capsys.readouterr().out.split("\n", 2)[2]) == []


def test_roles_change_and_users_come_and_go(capsys: Capture) -> None:
    assert run(["user", "role", "ann", "agent"]) == 0
    assert run(["user", "disable", "ann"]) == 0
    capsys.readouterr()
    assert run(["user", "list", "--json"]) == 0
    ann = json.loads(capsys.readouterr().out)[1]
    assert (ann["name"], ann["role"], ann["disabled"]) == ("ann", "agent", True)
    run(["user", "list"])
    assert ["ann", "agent", "disabled"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert run(["user", "enable", "ann"]) == 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["disable", "ada"], 2), (["role", "ada", "member"], 2), (["disable", "nobody"], 5),
        (["role", "ann", "boss"], 2),
        (["token", "create", "nobody"], 5), (["token", "create", "ann", "--label", ""], 2),
        (["token", "create", "ann", "--expires-in", "0"], 2), (["token", "revoke", "ann"], 2),
        (["token", "revoke", "ann", "x", "--all"], 2), (["token", "revoke", "ann", "nothing"], 5),
        (["token", "rotate", "ann", "nothing"], 5), (["token", "list", "nobody"], 5),
    ],
)  # fmt: skip
def test_what_can_not_be_done_says_why(arguments: list[str], status: int, capsys: Capture) -> None:
    capsys.readouterr()
    assert run(["user", *arguments]) == status
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.strip()


def test_the_audit_names_who_typed(home: Path) -> None:
    run(["user", "disable", "ann"])
    database = Database(home / ".butler" / "butler.db")
    rows = database.write_now(lambda c: read_rows(c, Filter(), 10))
    database.close()
    assert [(row["event"], row["actor"], row["via"]) for row in rows] == [
        ("user_added", "op", "shell"), ("user_added", "op", "shell"), ("user_disabled", "op", "shell"),
    ]  # fmt: skip


@pytest.mark.parametrize("command", [["user", "list"], ["user", "disable", "ann"], ["notify", "list"]])
def test_where_there_is_no_butler_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUTLER_DATA_DIR", str(tmp_path / "nothing"))
    monkeypatch.setenv("BUTLER_CONFIG_DIR", str(tmp_path))
    assert run(command) == 5
    assert "go to Butler's folder" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
