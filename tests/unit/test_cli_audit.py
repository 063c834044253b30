"""`butler audit` in this process: verify, export, show; and what doctor says of the chain."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from butler.storage.audit_check import TRIGGERS
from butler.storage.tables import AUDIT_TRIGGERS
from service.cli import run
from tests.support.parts import ADMIN, new_database, proposed, ruling

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with some rows in its audit."""
    for name in ("DATA_DIR", "CONFIG_DIR", "DATABASE_URL", "OWNER_TOKEN"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".butler").mkdir()
    database = new_database(tmp_path / ".butler" / "butler.db")
    proposed(database, ruling("approve"), ruling("allow"), person=ADMIN)
    database.close()
    for name in ("ann", "bob", "cid"):
        assert run(["user", "add", name]) == 0
    return tmp_path


def head_of(capsys: Capture) -> str:
    capsys.readouterr()
    assert run(["audit", "verify"]) == 0
    return capsys.readouterr().out.splitlines()[-1].removeprefix("head ")


def tamper(*statements: str) -> None:
    with closing(sqlite3.connect(".butler/butler.db")) as connection:
        for statement in (*(f"DROP TRIGGER {name}" for name in TRIGGERS), *statements, *AUDIT_TRIGGERS):
            connection.execute(statement)
        connection.commit()


def test_a_whole_audit_is_counted_and_its_head_is_printed_last(capsys: Capture) -> None:
    head = head_of(capsys)
    assert head.startswith("5:") and len(head) == 66
    run(["user", "add", "dan"])
    assert run(["audit", "verify", "--head", head]) == 0
    assert "6 row(s) hold together" in capsys.readouterr().out


def test_a_fault_is_told_with_its_row_and_status_5(capsys: Capture) -> None:
    tamper("UPDATE audit SET actor = 'nobody' WHERE seq = 4")
    capsys.readouterr()
    assert run(["audit", "verify"]) == 5
    printed = capsys.readouterr()
    assert printed.out == "3 row(s) hold together.\n"
    assert "(altered): row 4" in printed.err


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_an_exported_file_is_verified_without_the_database(kind: str, home: Path, capsys: Capture) -> None:
    head = head_of(capsys)
    file = home / f"audit.{kind}"
    assert run(["audit", "export", "--format", kind, "--output", str(file)]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    (home / ".butler" / "butler.db").unlink()
    assert run(["audit", "verify", "--file", str(file), "--head", head]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"head {head}"
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    for wrong in (text.replace("bob", "eve"), "".join(lines[:3] + lines[4:]), "".join(lines[:-1])):
        file.write_text(wrong)
        assert run(["audit", "verify", "--file", str(file), "--head", head]) == 5


def test_the_rest_of_the_audit_is_verified_from_a_noted_head(home: Path, capsys: Capture) -> None:
    capsys.readouterr()
    run(["audit", "export"])
    lines = capsys.readouterr().out.splitlines(keepends=True)
    second = json.loads(lines[1])
    part = home / "part.ndjson"
    part.write_text("".join(lines[2:]))
    assert run(["audit", "verify", "--file", str(part)]) == 0
    assert "begins with row 3" in capsys.readouterr().out
    assert run(["audit", "verify", "--file", str(part), "--head", f"2:{second['hash']}"]) == 0
    assert "begins with" not in capsys.readouterr().out
    assert run(["audit", "verify", "--file", str(part), "--head", f"2:{'0' * 64}"]) == 5


def test_an_export_begins_where_it_is_told_to(capsys: Capture) -> None:
    capsys.readouterr()
    assert run(["audit", "export", "--since", "2999-01-01"]) == 0
    assert capsys.readouterr().out == ""


def test_an_action_tells_its_story_by_id_and_by_code(capsys: Capture) -> None:
    with closing(sqlite3.connect(".butler/butler.db")) as connection:
        action_id, code = connection.execute("SELECT action_id, code FROM actions WHERE status = 'pending'").fetchone()
    capsys.readouterr()
    for name in (action_id, code, code.lower()):
        assert run(["audit", "show", name]) == 0
        first, asked = capsys.readouterr().out.splitlines()
        assert action_id in first and first.startswith("act(text=hello)")
        assert "asked for by ada via model" in asked and "because of a-rule" in asked


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["verify", "--head", "x"], 2), (["verify", "--file", "nowhere.csv"], 5), (["show", "NOCODE"], 5),
        (["export", "--format", "xml"], 2), (["export", "--since", "yesterday"], 2),
    ],
)  # fmt: skip
def test_what_can_not_be_done_says_why(arguments: list[str], status: int, capsys: Capture) -> None:
    capsys.readouterr()
    assert run(["audit", *arguments]) == status
    assert capsys.readouterr().err.strip()


def test_without_a_database_it_says_where_it_looked(home: Path, capsys: Capture) -> None:
    (home / ".butler" / "butler.db").unlink()
    for arguments in (["verify"], ["export"], ["show", "x"]):
        assert run(["audit", *arguments]) == 5
        assert "butler.db" in capsys.readouterr().err


def test_doctor_looks_at_the_end_of_the_chain(capsys: Capture) -> None:
    Path("config").mkdir()
    run(["doctor"])
    assert "ok audit: the last 5 rows" in capsys.readouterr().out
    tamper("DELETE FROM audit WHERE seq = 5")
    assert run(["doctor"]) == 5
    assert "!! audit: row 5" in capsys.readouterr().out
