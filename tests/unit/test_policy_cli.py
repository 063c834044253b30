"""`butler policy`: who decides, what is hardly meant, and what a policy would change about the recorded actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from butler.approvals.calls import Proposal
from butler.approvals.ledger import propose
from butler.canonical import canonical_json
from butler.storage.database import Database
from butler.types import Json, Ruling
from service.cli import run
from tests.support.parts import ADMIN, add_run, new_database

TOOLS = """
tools:
  - name: run_command
    description: Run a command
    input_schema: {type: object, properties: {command: {type: string}, key: {type: string, writeOnly: true}}}
    command: [sh, -c, "{command}"]
  - name: list_files
    description: List files
    input_schema: {type: object}
    command: [ls]
    verdict: allow
"""
TWO_PEOPLE = """
rules:
  - {name: two, tool: run_command, verdict: approve, deciders: [DECIDERS], approvals_needed: 2, escalate_after: 60,
     escalate_to: [eve, member], expires_in: 90}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two tools and no rules."""
    for name in ("BASE_URL", "MODEL", "API_TOKEN", "DATA_DIR", "CONFIG_DIR", "DATABASE_URL"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.setenv("PLANTED_TOKEN", "planted-secret-value")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tools.yml").write_text(TOOLS)
    write(tmp_path, "default: approve\n")
    return tmp_path


def write(home: Path, policy: str) -> None:
    (home / "config" / "policy.yml").write_text(policy)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    capsys.readouterr()
    assert run(["policy", *arguments]) == status
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("deciders", "options", "line"),
    [
        ("ann, admin", [], "requester: may decide it only if their name or role is among these; other admins can"),
        ("ann, requester", [], "requester: may decide it"),
        ("ann, bob", ["--as", "ann"], "requester: ann (member) may decide it"),
        ("ann, bob", ["--as", "eve", "--role", "member"], "requester: eve (member) may not decide it"),
        ("ann, bob", ["--role", "admin"], "requester: such a user (admin) may not decide it, admin or not: the rule "
         "names others"),
        ("ann, bob, admin", ["--role", "admin"], "requester: such a user (admin) may decide it"),
        ("requester, admin", ["--as", "x", "--role", "agent"], "requester: x (agent) may not decide it"),
    ],
)  # fmt: skip
def test_policy_test_says_who_decides_and_whether_the_requester_may(
    deciders: str, options: list[str], line: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, TWO_PEOPLE.replace("DECIDERS", deciders))
    run(["user", "add", "ann"])
    lines = printed(capsys, "test", "run_command", *options)
    assert line in lines
    assert "approvals needed: 2 different people" in lines
    assert "escalates: after 60 s to eve, member" in lines
    assert "expires: after 90 s" in lines


@pytest.mark.usefixtures("home")
def test_policy_test_says_what_holds_without_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "test", "run_command")
    assert lines == [
        "verdict: approve",
        "rule: default",
        "reason: No policy rule is about this call; the default of policy.yml is approve: a person is asked first.",
        "risk: dangerous",
        "deciders: admin",
        "requester: may decide it only as an admin",
        "approvals needed: one person",
        "escalates: never",
        "expires: never",
        "matched: no rule",
    ]
    assert printed(capsys, "test", "list_files")[2] == (
        "reason: No policy rule is about this call; the own verdict of the tool 'list_files' is allow: "
        "it runs without asking."
    )


@pytest.mark.usefixtures("home")
def test_policy_test_for_an_unknown_user_needs_a_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "test", "run_command", "--as", "nobody"]) == 2
    assert "there is no user 'nobody'" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_policy_check_names_tools_without_a_rule_and_what_happens_to_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "check") == [
        "note: config/tools.yml:3: run_command: no rule is about this tool; the default of policy.yml is approve",
        "note: config/tools.yml:7: list_files: no rule is about this tool; its own verdict in tools.yml is allow",
        "13 tool(s), 0 policy rule(s); no rule is beaten by another one.",
    ]


@pytest.mark.parametrize(
    ("glob", "advice"),
    [
        ("git status*", "name the words instead: command: [git, status, \"**\"]"),
        ("git log *", "name the words instead: command: [git, log, \"**\"]"),
        ("*", "name the words instead: command: [\"**\"]"),
        ("git ?", "name the words instead: command: [git, \"?\"]"),
        ("[sudo, '**']", "'sudo' starts any other program"),
        ("['**']", "'**' is any program"),
        ("git status", None),
        ("[git, '**']", None),
    ],
)  # fmt: skip
def test_policy_check_warns_of_commands_allowed_more_widely_than_they_read(
    glob: str, advice: str | None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = glob if glob.startswith("[") else json.dumps(glob)
    write(home, f"rules:\n  - name: a\n    tool: '*'\n    verdict: allow\n    args:\n      command: {value}\n")
    warnings = [line for line in printed(capsys, "check") if line.startswith("warning: ")]
    if advice is None:
        assert warnings == []
    else:
        [warning] = warnings
        assert warning.startswith("warning: config/policy.yml:6: args.command: ")
        assert advice in warning


@pytest.mark.parametrize(
    ("glob", "advice"),
    [
        ("rm *", 'command: [rm, "**"]'),
        ("*rm -rf*", 'command: [rm, "-rf", "**"]'),
        ("rm -rf /", 'command: [rm, "-rf", "/"]'),
        ("*", None),
    ],
)
def test_policy_check_warns_of_refused_commands_that_need_only_be_written_in_another_way(
    glob: str, advice: str | None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, f"rules:\n  - {{name: a, tool: run_command, verdict: refuse, args: {{command: '{glob}'}}}}\n")
    warnings = [line for line in printed(capsys, "check") if line.startswith("warning: ")]
    assert [line.partition("instead: ")[2] for line in warnings] == ([advice] if advice else [])


def test_policy_check_names_deciders_who_do_not_exist(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, TWO_PEOPLE.replace("DECIDERS", "anna, admin"))
    assert not any("is no user" in line for line in printed(capsys, "check"))
    run(["user", "add", "ann"])
    named = [line for line in printed(capsys, "check") if "is no user" in line]
    assert [line.split(": ")[3].split()[0] for line in named] == ["'anna'", "'eve'"]
    assert "did you mean 'ann'?" in named[0]


class Past:
    """A database with recorded actions."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def record(self, tool: str, args: Json, verdict: Any, rule: str = "default", shown: str | None = None) -> None:
        title = f"{tool}({shown or canonical_json(args)})"
        call = Proposal(canonical_json(args), 0, tool, args, title, "digest")
        ruling = Ruling(verdict, rule, "because", "dangerous")

        def act(connection: Connection) -> None:
            add_run(connection, "run")
            propose(
                connection, [call], run_id="run", thread_id="thread of run", person=ADMIN, rule=lambda *_: ruling
            )  # fmt: skip

        self.database.write_now(act)


@pytest.fixture
def past(home: Path) -> Iterator[Past]:
    """The database of the working directory, open for writing as a server has it."""
    (home / ".butler").mkdir(mode=0o700)
    database = new_database(home / ".butler" / "butler.db")
    yield Past(database)
    database.close()


ALLOWING = """
rules:
  - {name: looking, tool: run_command, args: {command: [git, status, "**"]}, verdict: allow}
  - {name: no-rm, tool: run_command, args: {command: [rm, "**"]}, verdict: refuse}
"""


def test_policy_check_tells_what_the_policy_would_change_about_recorded_actions(
    home: Path, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("git status", "git status -s", "git status; ls", "ls"):
        past.record("run_command", {"command": command}, "approve")
    past.record("run_command", {"command": "sudo rm x"}, "allow", "old-rule")
    past.record("run_command", {"command": "git status -b"}, "allow", "old-rule")
    past.record("gone_tool", {"a": 1}, "approve")
    write(home, ALLOWING)
    lines = printed(capsys, "check")
    start = next(place for place, line in enumerate(lines) if "recorded action(s)" in line)
    assert lines[start] == (
        "7 recorded action(s) looked at, 3 would change: approve→allow 2, allow→refuse 1; 1 would keep the verdict "
        "under another rule; 1 left out, their tool is no longer declared"
    )
    assert [line.split(" ", 3)[3] for line in lines[start + 1 :]] == [
        'run_command({"command":"sudo rm x"}): allow (old-rule) → refuse (no-rm)',
        'run_command({"command":"git status -s"}): approve (default) → allow (looking)',
        'run_command({"command":"git status"}): approve (default) → allow (looking)',
    ]
    assert any("2 recorded action(s) looked at, 0 would change" in line for line in printed(
        capsys, "check", "--actions", "2"))  # fmt: skip
    assert not any("recorded" in line for line in printed(capsys, "check", "--actions", "0"))


def test_what_a_grant_allowed_stays_allowed_unless_a_rule_is_about_it(
    home: Path, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    past.record("run_command", {"command": "ls"}, "allow", "grant:g1")
    past.record("run_command", {"command": "rm x"}, "allow", "grant:g2")
    write(home, ALLOWING)
    [summary, change] = printed(capsys, "check")[-2:]
    assert summary == "2 recorded action(s) looked at, 1 would change: allow→refuse 1"
    assert change.endswith('run_command({"command":"rm x"}): allow (grant:g2) → refuse (no-rm)')


def test_changes_show_no_secret_and_no_control_character(
    home: Path, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    args = {"command": "rm planted-secret-value \x1b[2J", "key": "hidden argument"}
    past.record("run_command", args, "approve")
    write(home, ALLOWING)
    for options in ((), ("--json",)):
        text = "\n".join(printed(capsys, "check", *options))
        assert "refuse" in text
        assert "planted-secret-value" not in text
        assert "hidden argument" not in text
        assert "\x1b" not in text


def test_a_candidate_file_is_looked_at_in_place_of_the_policy_and_the_report_is_json_too(
    home: Path, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    past.record("run_command", {"command": "git status"}, "approve")
    (home / "candidate.yml").write_text(ALLOWING)
    report = json.loads("\n".join(printed(capsys, "check", "--policy", "candidate.yml", "--json")))
    assert report["never_win"] == report["warnings"] == []
    assert [note.split(": ")[1] for note in report["notes"]] == ["list_files"]
    [change] = report["actions"].pop("changes")
    assert report["actions"] == {
        "looked_at": 1, "changed": 1, "by_kind": {"approve→allow": 1}, "other_rule": 0, "tool_gone": 0,
    }  # fmt: skip
    assert (change["tool"], change["old_verdict"], change["old_rule"]) == ("run_command", "approve", "default")
    assert (change["new_verdict"], change["new_rule"]) == ("allow", "looking")
    assert "no rule is about this tool" in printed(capsys, "check")[0]


def test_faults_of_a_candidate_file_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidate = home / "candidate.yml"
    candidate.write_text("rules:\n  - {name: a, tool: run_comand, verdict: allow}\n")
    assert run(["policy", "check", "--policy", "candidate.yml"]) == 2
    assert "candidate.yml:2: tool: there is no tool 'run_comand'" in capsys.readouterr().err
    candidate.write_text("rules:\n  - {name: a, tool: run_command, verdict: alow}\n")
    assert run(["policy", "check", "--policy", "candidate.yml"]) == 2
    assert "candidate.yml:2: verdict: " in capsys.readouterr().err
    assert run(["policy", "check", "--policy", "absent.yml"]) == 2


def test_a_database_that_can_not_be_read_is_a_note(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".butler").mkdir()
    (home / ".butler" / "butler.db").write_text("no database " * 100)
    assert any("can't be read" in line for line in printed(capsys, "check"))


def test_checking_changes_nothing_in_the_database(home: Path, past: Past, capsys: pytest.CaptureFixture[str]) -> None:
    past.record("run_command", {"command": "ls"}, "approve")
    before = {path.name: path.read_bytes() for path in (home / ".butler").iterdir() if not path.name.endswith("-shm")}
    printed(capsys, "check")
    after = {path.name: path.read_bytes() for path in (home / ".butler").iterdir() if not path.name.endswith("-shm")}
    assert after == before


def test_variables_that_only_notify_yml_uses_are_needed_where_something_is_sent(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOB_URL", raising=False)
    (home / "config" / "notify.yml").write_text('people: [{user: bob, urls: ["${BOB_URL}"]}]')
    assert "verdict: approve" in printed(capsys, "test", "run_command", "{}")
    printed(capsys, "check")
    assert run(["user", "add", "ann"]) == 0
    assert run(["notify", "list"]) == 0
    assert "No channel fails." in capsys.readouterr().out
    for command in (["notify", "test"], ["doctor"]):
        assert run(command) == 2
        assert "'BOB_URL' is not set" in capsys.readouterr().err


def test_policy_check_names_rules_that_the_people_there_can_not_meet(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [("three", "admin", 3), ("mia-alone", "mia", 1), ("fine", "mia, admin", 1), ("self", "requester", 1)]
    lines = [
        f"  - {{name: {name}, tool: run_command, args: {{command: '{name}'}}, verdict: approve, deciders: [{who}], "
        f"approvals_needed: {needed}}}\n"
        for name, who, needed in rules
    ]
    write(home, "rules:\n" + "".join(lines))
    for name, role in (("ada", "admin"), ("eve", "admin"), ("mia", "member")):
        run(["user", "add", name, "--role", role])

    def warned() -> list[str]:
        lines = printed(capsys, "check")
        return [line.removeprefix("warning: config/policy.yml:") for line in lines if "may decide" in line]

    assert warned() == ["2: three: takes 3 people, but only 2 may decide; it waits for ever"]
    run(["user", "disable", "mia"])
    run(["user", "disable", "eve"])
    assert warned() == [
        "2: three: takes 3 people, but only 1 may decide; it waits for ever",
        "3: mia-alone: asked by ada, too few others may decide (0 of 1); it waits for ever",
    ]
