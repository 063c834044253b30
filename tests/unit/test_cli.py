"""The command line in this process: what it prints, what it changes, and its exit status."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from butler.storage.database import Database
from butler.storage.tokens import user_of_token
from service.cli import run
from service.cli.lazy import PLACES
from tests.support.scripted_model import ScriptedModel

TOOLS = """
tools:
  - name: delete_file
    description: Delete a file
    input_schema: {type: object, properties: {target: {type: string}}, required: [target]}
    command: [rm, "{target}"]
  - name: list_files
    description: List files
    input_schema: {type: object}
    command: [ls]
    verdict: allow
"""
POLICY = """
rules:
  - {name: never-prod, tool: "delete_*", args: {target: "prod-*"}, verdict: refuse, reason: Off limits}
  - {name: ask-for-deletes, tool: "delete_*", verdict: approve, deciders: [admin, ann], expires_in: 60}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two tools and two rules, and no settings of the caller's."""
    for name in ("BASE_URL", "MODEL", "FALLBACK_MODEL", "API_TOKEN", "DATA_DIR", "CONFIG_DIR", "DATABASE_URL"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tools.yml").write_text(TOOLS)
    (tmp_path / "config" / "policy.yml").write_text(POLICY)
    return tmp_path


def test_a_new_users_token_stands_alone_on_the_last_line_and_works(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["user", "add", "ann", "--role", "agent"]) == 0
    token = capsys.readouterr().out.splitlines()[-1]
    database = Database(home / ".butler" / "butler.db")
    person = database.write_now(lambda connection: user_of_token(connection, token))
    database.close()
    assert person is not None
    assert (person.name, person.role) == ("ann", "agent")
    assert stat.S_IMODE((home / ".butler").stat().st_mode) == 0o700
    assert stat.S_IMODE((home / ".butler" / "butler.db").stat().st_mode) == 0o600


@pytest.mark.usefixtures("home")
def test_users_are_listed_with_their_roles_and_without_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    run(["user", "add", "ann"])
    token = capsys.readouterr().out.splitlines()[-1]
    assert run(["user", "list"]) == 0
    shown = capsys.readouterr().out
    assert shown.split() == ["name", "role", "ann", "member"]
    assert token not in shown


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "arguments",
    [
        ["user", "add", "ann", "--role", "boss"],
        ["user", "add", "no spaces"],
        ["user", "add"],
        ["policy", "test", "delete_file", "{"],
        ["policy", "test", "delete_file", "[]"],
        ["nonsense"],
    ],
)
def test_wrong_usage_ends_with_2_and_prints_nothing_on_standard_output(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err


@pytest.mark.usefixtures("home")
def test_a_user_is_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["user", "add", "ann"]) == 0
    capsys.readouterr()
    assert run(["user", "add", "ann", "--role", "admin"]) == 2
    assert "'ann'" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_policy_test_prints_verdict_winner_and_every_match(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "test", "delete_file", '{"target": "prod-1"}']) == 0
    assert capsys.readouterr().out.splitlines() == [
        "verdict: refuse",
        "rule: never-prod (config/policy.yml:3)",
        "reason: Off limits",
        "risk: forbidden",
        "matched: never-prod (config/policy.yml:3) refuse",
        "matched: ask-for-deletes (config/policy.yml:4) approve",
    ]


@pytest.mark.usefixtures("home")
def test_policy_test_says_who_decides_and_until_when(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "test", "delete_file", '{"target": "x"}']) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "verdict: approve"
    assert "deciders: admin, ann" in shown
    assert "expires: after 60 s" in shown


def test_policy_test_says_that_admins_decide_also_where_a_rule_names_others(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config" / "policy.yml").write_text(POLICY.replace("deciders: [admin, ann]", "deciders: [ann]"))
    assert run(["policy", "test", "delete_file", '{"target": "x"}']) == 0
    assert "deciders: ann; admins can always decide" in capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("tool", "verdict"), [("list_files", "allow"), ("unheard_of", "approve")])
def test_policy_test_falls_back_to_the_tools_own_verdict_and_the_default(
    tool: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policy", "test", tool]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:2] == [f"verdict: {verdict}", "rule: default"]
    assert ("'unheard_of'" in shown.err) == (tool == "unheard_of")


@pytest.mark.usefixtures("home")
def test_policy_test_says_when_the_arguments_would_not_reach_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "test", "delete_file", '{"target": 3}']) == 0
    assert "target" in capsys.readouterr().err


def test_policy_check_names_a_rule_that_can_never_win(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check"]) == 0
    capsys.readouterr()
    with (home / "config" / "policy.yml").open("a") as policy:
        policy.write('  - {name: too-late, tool: "delete_file", args: {target: "prod-9"}, verdict: allow}\n')
    assert run(["policy", "check"]) == 5
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("config/policy.yml:5: too-late: can never win")


@pytest.mark.parametrize("command", [["policy", "check"], ["policy", "test", "x"], ["doctor"]])
def test_faults_of_both_files_are_named_with_their_lines(
    command: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config" / "policy.yml").write_text("defualt: allow\n")
    (home / "config" / "tools.yml").write_text("tols: []\n")
    assert run(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "config/policy.yml:1: defualt: " in shown.err
    assert "config/tools.yml:1: tols: " in shown.err


def test_doctor_changes_nothing_before_the_first_start(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "13 tool(s), 2 policy rule(s)" in shown
    assert "BUTLER_BASE_URL and BUTLER_MODEL" in shown
    assert not (home / ".butler").exists()


def test_doctor_finds_a_data_directory_open_to_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["user", "add", "ann"])
    assert run(["doctor"]) == 0
    assert "is sound, 1 user(s)" in capsys.readouterr().out
    (home / ".butler").chmod(0o755)
    assert run(["doctor"]) == 5
    assert "chmod 700" in capsys.readouterr().out


def test_doctor_finds_a_file_that_is_no_database(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".butler").mkdir(mode=0o700)
    (home / ".butler" / "butler.db").write_text("not a database " * 100)
    assert run(["doctor"]) == 5
    shown = capsys.readouterr().out
    assert "!! database: " in shown and "(restore it from a backup" in shown


@pytest.fixture
def endpoint(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> str:
    """The scripted endpoint as the configured one; its base URL."""
    monkeypatch.setenv("BUTLER_BASE_URL", model.url)
    monkeypatch.setenv("BUTLER_API_TOKEN", "model-token")
    monkeypatch.setenv("BUTLER_MODEL", "scripted")
    return model.url


@pytest.mark.usefixtures("home", "endpoint")
def test_doctor_asks_the_endpoint_whether_it_knows_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert "ok model: " in capsys.readouterr().out


@pytest.mark.usefixtures("home", "endpoint")
@pytest.mark.parametrize("variable", ["BUTLER_MODEL", "BUTLER_FALLBACK_MODEL"])
def test_doctor_names_the_models_of_the_endpoint_when_one_is_not_among_them(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "spere")
    assert run(["doctor"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " model: " in line]
    assert line.startswith("-- ")
    assert line.endswith(f"does not list 'spere' ({variable}); it lists 'spare', 'scripted'")


@pytest.mark.usefixtures("home")
def test_doctor_finds_the_path_under_which_the_endpoint_does_answer(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUTLER_BASE_URL", endpoint.removesuffix("/v1") + "/v2")
    assert run(["doctor"]) == 5
    assert f"!! model: nothing is at the path of BUTLER_BASE_URL; {endpoint} answers" in capsys.readouterr().out


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"BASE_URL": "http://127.0.0.1:9/v1"}, "BUTLER_MODEL"),
        ({"MODEL": "any"}, "BUTLER_BASE_URL"),
        ({"API_TOKEN": "key"}, "BUTLER_BASE_URL and BUTLER_MODEL"),
    ],
    ids=["only the URL", "only the model", "only the key"],
)
def test_doctor_fails_for_a_half_configured_model(
    given: dict[str, str], missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"BUTLER_{name}", value)
    assert run(["doctor"]) == 5
    assert f"set, but not {missing}, so no model is asked" in capsys.readouterr().out


def test_doctor_finds_programs_and_scripts_that_are_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = TOOLS.replace("command: [ls]", "command: [python3, gone.py]").replace("command: [rm,", "command: [rmm,")
    (home / "config" / "tools.yml").write_text(tools)
    assert run(["doctor"]) == 5
    shown = capsys.readouterr().out
    assert "!! tools: config/tools.yml:3: delete_file: there is no program 'rmm'" in shown
    assert "!! tools: config/tools.yml:7: list_files: there is no file 'gone.py' in " in shown
    (home / "config" / "gone.py").write_text("")
    assert run(["doctor"]) == 5
    assert "gone.py" not in capsys.readouterr().out


def test_doctor_names_deciders_who_do_not_exist_once_there_are_users(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor"]) == 0
    assert "deciders:" not in capsys.readouterr().out
    run(["user", "add", "anna"])
    assert run(["doctor"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "deciders:" in line]
    assert line.startswith("-- deciders: config/policy.yml:4: ask-for-deletes: 'ann' is no user and no role")
    assert "did you mean 'anna'?" in line


def test_doctor_tells_of_files_that_are_absent_or_misnamed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config" / "policy.yml").unlink()
    assert run(["doctor"]) == 0
    assert "policy.yml does not exist, so there are no rules" in capsys.readouterr().out
    (home / "config" / "policy.yaml").write_text(POLICY)
    assert run(["doctor"]) == 5
    assert "policy.yaml is not read, rename it" in capsys.readouterr().out


def test_doctor_names_a_misspelled_variable(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".env").write_text("BUTLER_MODLE=any\n")
    assert run(["doctor"]) == 0
    assert "-- environment: .env:1: BUTLER_MODLE: " in capsys.readouterr().out


def test_doctor_says_when_it_is_run_in_another_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    assert run(["doctor"]) == 5
    assert "!! configuration: there is no folder " in capsys.readouterr().out


@pytest.mark.usefixtures("home")
def test_doctor_fails_when_the_model_does_not_answer_and_shows_no_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUTLER_BASE_URL", "http://user:hidden@127.0.0.1:9/v1")
    monkeypatch.setenv("BUTLER_API_TOKEN", "hidden-key")
    monkeypatch.setenv("BUTLER_MODEL", "any")
    assert run(["doctor"]) == 5
    shown = capsys.readouterr().out
    assert "127.0.0.1:9 does not answer" in shown
    assert "(start it, or correct BUTLER_BASE_URL)" in shown
    assert "hidden" not in shown


@pytest.mark.parametrize("module", ["service.cli.deciding", "service.mcp.stdio"])
def test_deciding_in_the_shell_and_serving_mcp_load_no_database_and_no_model(module: str) -> None:
    """Each command is a process of its own; what it loads is what a person or an agent waits for."""
    code = f"import sys, {module}; print(sorted({{'sqlalchemy', 'langgraph', 'openai', 'fastapi'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", PLACES)
def test_every_command_is_where_it_is_said_to_be(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"butler {name}" in capsys.readouterr().out


def test_a_misspelt_command_is_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["aprove", "ABCDE"]) == 2
    assert "did you mean 'approve'" in capsys.readouterr().err
