"""`butler maids`: what is in the two files, what is wrong with them, and which route a task would take."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.maids_file import load_maids_file
from config.problems import ConfigError
from config.routes_file import load_routes_file
from config.settings import load_settings
from service.cli import run
from service.doctor_maids import maids as findings_of_maids
from service.wiring import read_configuration

SHIPPED = Path(__file__).resolve().parents[2] / "config"
MAIDS = """
maids:
  - {maid_id: one, kind: cli, provider: p, model: m, command_template: [git, status], env: [PATH, MAID_KEY]}
  - {maid_id: two, kind: script, command_template: [no-such-program-here], enabled: false}
project_roots: [ROOT]
"""
ROUTES = """
routes:
  - {intent: implement, maid_id: null, conditions_json: {max_instruction_chars: 5}}
  - {intent: implement, maid_id: one, conditions_json: {files_match: "*.py", parameters: {lang: de}}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two maids, two routes and a project."""
    for name in ("DATA_DIR", "CONFIG_DIR", "DATABASE_URL", "NOTIFY_URLS"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.setenv("MAID_KEY", "planted-secret-value")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("")
    (tmp_path / "config" / "maid_registry.yml").write_text(MAIDS.replace("ROOT", str(tmp_path / "work")))
    (tmp_path / "config" / "intent_maid_routes.yml").write_text(ROUTES)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert run(["maids", *arguments]) == status
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    found = json.loads(printed(capsys, *arguments, "--json", status=status))
    assert isinstance(found, dict)
    return found


NO_SANDBOX = (
    "it runs without a sandbox, so it has the rights of Butler's own user, its token and keys among them; set "
    "`sandbox: bubblewrap`"
)


def test_list_shows_each_maid_on_a_line_and_never_a_value(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, one, two, root = printed(capsys, "list").splitlines()
    assert head.split() == [
        "maid", "kind", "model", "provider", "enabled", "routes", "adoption", "program", "environment",
    ]  # fmt: skip
    git = shutil.which("git")
    assert one.split() == ["one", "cli", "m", "p", "yes", "implement", "\u2013", git, "PATH,", "MAID_KEY"]
    assert two.split() == ["two", "script", "\u2013", "\u2013", "no", "\u2013", "\u2013", "not", "found", "\u2013"]
    assert root == f"project root: {home / 'work'}"
    [first, second] = document(capsys, "list")["maids"]
    assert (first["env"], first["intents"], first["adoption"], first["healthy"]) == (
        [{"name": "PATH", "set": True}, {"name": "MAID_KEY", "set": True}], ["implement"], None, True,
    )  # fmt: skip
    assert (second["health"], second["program"]) == ("it is disabled", None)
    assert "planted-secret-value" not in printed(capsys, "list", "--json")


def test_check_tells_what_keeps_maids_from_working(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAID_KEY")
    (home / "work" / "a.py").unlink()
    (home / "work").rmdir()
    out = printed(capsys, "check")
    assert "MAID_KEY (not set)" in out and f"project root: {home / 'work'} (there is no such folder)" in out
    assert out.splitlines()[-6:] == [
        "maids at once: 4",
        "warning: config/maid_registry.yml:3: one: not set: MAID_KEY",
        "warning: config/maid_registry.yml:3: one: it has no checks, so its work can only end as unverified",
        f"warning: config/maid_registry.yml:3: one: {NO_SANDBOX}",
        f"warning: project_roots: there is no folder {home / 'work'}",
        "2 maid(s), 2 route(s); the files are sound.",
    ]


def test_check_prints_the_sound_maids_and_every_fault_of_both_files(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = home / "config" / "maid_registry.yml"
    registry.write_text(registry.read_text().replace("maid_id: two", "maid_idd: two"))
    routes = home / "config" / "intent_maid_routes.yml"
    routes.write_text(ROUTES.replace("max_instruction_chars", "max_instruction_char"))
    assert run(["maids", "check"]) == 2
    out, err = capsys.readouterr()
    assert "one" in out and "two" not in out
    assert err.splitlines() == [
        "config/maid_registry.yml:4: maid_id: is missing",
        "config/maid_registry.yml:4: maid_idd: unknown key (did you mean 'maid_id'?)",
        "config/intent_maid_routes.yml:3: conditions_json.max_instruction_char: unknown key "
        "(did you mean 'max_instruction_chars'?)",
    ]
    found = document(capsys, "check", status=2)
    assert (
        len(found["faults"]) == 3
        and found["most_at_once"] == 4
        and [maid["maid_id"] for maid in found["maids"]] == ["one"]
    )
    for command in (["list"], ["route", "implement"]):
        assert printed(capsys, *command, status=2) == ""
    (home / "config" / "maid_registry.yml").write_text("maids: [")
    assert len(document(capsys, "check", status=2)["faults"]) == 2


def test_route_explains_which_route_won_and_why(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("route", "implement", "--instruction", "a long one", "--project", "work", "--param", "lang=de")
    assert printed(capsys, *arguments).splitlines() == [
        "maid: one",
        "reason: The route at config/intent_maid_routes.yml:4 gives it to one: files_match: wanted a file like *.py, "
        "found a.py; parameters.lang: wanted de, found de.",
        "route: config/intent_maid_routes.yml:3 → not delegated: does not hold: max_instruction_chars: wanted at most "
        "5 characters, found 10",
        "route: config/intent_maid_routes.yml:4 → one: won: files_match: wanted a file like *.py, found a.py; "
        "parameters.lang: wanted de, found de",
    ]
    found = document(capsys, *arguments)
    assert (found["outcome"], found["maid_id"], found["route"]) == (
        "delegated", "one", "config/intent_maid_routes.yml:4",
    )  # fmt: skip
    assert document(capsys, "route", "implement", "--instruction", "tiny")["outcome"] == "not_delegated"
    assert document(capsys, "route", "implement", "--instruction", "long enough")["outcome"] == "no_route"
    assert document(capsys, "route", "implement", "--maid", "one")["outcome"] == "delegated"


def test_route_says_what_would_be_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "route", "implement", "--project", ".")
    assert "is not inside any of the project_roots" in found["notes"][0]
    assert "(did you mean 'implement'?)" in printed(capsys, "route", "implment", status=2)
    assert printed(capsys, "route", "implement", "--param", "lang", status=2) == ""
    assert printed(capsys, "route", "implement", "--maid", "two", status=2) == ""
    assert printed(capsys, "route", "implement", "--maid", "six", status=5) == ""


def test_faults_of_these_files_stop_the_start_with_those_of_the_others(home: Path) -> None:
    (home / "config" / "policy.yml").write_text("defaultt: ask\n")
    (home / "config" / "maid_registry.yml").write_text("maid: []\n")
    (home / "config" / "intent_maid_routes.yml").write_text("rotes: []\n")
    with pytest.raises(ConfigError) as caught:
        read_configuration(load_settings({}, home), {})
    assert str(caught.value).splitlines() == [
        "config/policy.yml:1: defaultt: unknown key (did you mean 'default'?)",
        "config/maid_registry.yml:1: maid: unknown key (did you mean 'maids'?)",
        "config/intent_maid_routes.yml:1: rotes: unknown key (did you mean 'routes'?)",
    ]


def test_the_shipped_files_are_sound_and_their_comments_too(tmp_path: Path) -> None:
    registry = load_maids_file(SHIPPED / "maid_registry.yml")
    assert [maid.maid_id for maid in registry.maids if maid.enabled] == ["strip_spaces"]
    assert load_routes_file(SHIPPED / "intent_maid_routes.yml", registry)
    # What a person gets who follows the comments.
    text = (SHIPPED / "maid_registry.yml").read_text().replace("enabled: false", "enabled: true")
    shutil.copytree(SHIPPED / "maids", tmp_path / "maids")
    (tmp_path / "maid_registry.yml").write_text(uncommented(text.replace("project_roots: []\n", "")))
    registry = load_maids_file(tmp_path / "maid_registry.yml")
    goose = registry.maids[1]
    assert goose.endpoint and goose.limits.tool_calls == 100 and registry.project_roots and registry.allowed_hosts
    (tmp_path / "intent_maid_routes.yml").write_text(uncommented((SHIPPED / "intent_maid_routes.yml").read_text()))
    routes = load_routes_file(tmp_path / "intent_maid_routes.yml", registry)
    assert [route.maid_id for route in routes] == ["strip_spaces", None, "goose_coder"]


def uncommented(text: str) -> str:
    """The text with the examples in its comments; prose, which is no `key:` or item, stays out."""
    starts = ("# - intent", "#   maid_id", "#   conditions_json", "#   retry_policy_json", "# endpoint", "# limits",
              "# allowed_hosts", "# project_roots")  # fmt: skip
    lines = [line.replace("# ", "", 1) if line.strip().startswith(starts) else line for line in text.split("\n")]
    return "\n".join(lines)


def test_the_shipped_script_strips_spaces_and_checks_the_same(tmp_path: Path) -> None:
    registry = load_maids_file(SHIPPED / "maid_registry.yml")
    [check] = registry.maids[0].verification_profile.test_commands
    assert check.command in registry.allowed_commands
    files = {
        "a.py": b"x = 1  \r\ny\t\n\n  z",
        "b.bin": b"\0 \n",
        "c.md": b"two  \n",
        "sub/l1": b"\xff \n",
        "ok": b"fine\n",
    }
    (tmp_path / "sub").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to(tmp_path / "a.py")

    def called(command: tuple[str, ...]) -> tuple[int, str]:
        argv = [sys.executable, *(item.replace("{project_root}", str(tmp_path)) for item in command[1:])]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert called(check.command) == (1, "a.py\n1 file(s) with spaces at line ends\n")
    assert called(registry.maids[0].command_template) == (0, "a.py\n1 file(s) changed\n")
    assert called(check.command) == (0, "0 file(s) with spaces at line ends\n")
    assert {name: (tmp_path / name).read_bytes() for name in files} == {**files, "a.py": b"x = 1\r\ny\n\n  z"}


def test_doctor_tells_what_check_warns_of(home: Path) -> None:
    registry = load_maids_file(home / "config" / "maid_registry.yml")
    routes = load_routes_file(home / "config" / "intent_maid_routes.yml", registry)
    [note, unsafe, good] = findings_of_maids(
        registry, routes, {"PATH": str(Path(shutil.which("git") or "").parent), "MAID_KEY": "x"}
    )
    assert unsafe.state == "note" and unsafe.detail.endswith(NO_SANDBOX)
    assert (note.state, good.state, good.detail) == ("note", "good", "1 of 2 could start now, 2 route(s)")
    found = list(findings_of_maids(registry, routes, {}))
    assert {finding.state for finding in found} == {"note"} and "MAID_KEY" in found[0].detail
    assert "`enabled: false`" in found[0].do and not unsafe.do


@pytest.mark.parametrize("text", ["maids: [", "maids:\n  - {maid_id: one}\n", "\x00"])
def test_check_does_not_say_that_there_are_no_maids_where_none_could_be_read(
    home: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (home / "config" / "maid_registry.yml").write_text(text)
    told = printed(capsys, "check", status=2)
    assert "There are no maids" not in told and "maids at once" not in told
    assert "No maid could be read; the faults below say why." in told


def test_check_says_that_maids_with_a_fault_are_not_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "config" / "maid_registry.yml"
    path.write_text(path.read_text().replace("kind: script", "kind: skript"))
    told = printed(capsys, "check", status=2)
    assert "one" in told and "Maids with a fault are not shown" in told
