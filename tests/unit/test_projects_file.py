"""projects.yml: what it says is read whole, and each fault has its line; the innermost project counts (D12)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from butler.errors import ButlerError
from butler.maids.issues import MOST_BYTES, issue_template
from butler.maids.projects import folder_of_name, project_of
from butler.maids.sessionlogs import write_session_log
from butler.maids.store import MaidRun
from butler.redact import Redactor
from config.environment import read_environment
from config.maid_types import MaidDefinition, MaidRegistryFile, RouteDefinition
from config.problems import ConfigError
from config.projects_file import ProjectDefinition, load_projects_file
from config.published import published_schemas
from service.cli import entry
from service.cli.projects import as_sent

HOUSE = MaidDefinition("house", "script", "House", "local", None, "", ("true",), source="maid_registry.yml:2")
ROUTES = (RouteDefinition("work", "house"),)
OWN = "maids: [{maid_id: own, kind: script, command_template: [python3, own.py]}]\nallowed_commands: [[make, own]]\n"


def load(place: Path, text: str) -> tuple[ProjectDefinition, ...]:
    """The file in PLACE/config; projects are allowed in PLACE/work."""
    config = place / "config"
    config.mkdir(exist_ok=True)
    (config / "projects.yml").write_text(text)
    registry = MaidRegistryFile((HOUSE,), (("make", "test"),), (), ((place / "work").resolve(),))
    return load_projects_file(config / "projects.yml", registry, ROUTES, cwd=config)


def faults(place: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(place, text)
    return [str(problem) for problem in caught.value.problems]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work" / "shop" / "forms").mkdir(parents=True)
    (tmp_path / "work" / "shop" / ".env").write_text("export A=1\n\nB='two words'\nPATH=/evil\n")
    (tmp_path / "config" / "own").mkdir(parents=True)
    (tmp_path / "config" / "own" / "maid_registry.yml").write_text(OWN)
    (tmp_path / "config" / "own" / "intent_maid_routes.yml").write_text("routes: [{intent: work, maid_id: own}]\n")
    return tmp_path


def test_all_keys_are_read_and_the_own_rows_come_first(place: Path) -> None:
    root = place / "work" / "shop"
    text = (
        f"projects: [{{name: shop, project_root: {root}, config_dir: own, env_path: .env, issue_template_dir: forms, "
        "session_logs_dir: logs}]\n"
    )
    [project] = load(place, text)
    assert (project.name, project.project_root, project.source) == ("shop", root, "projects.yml:1")
    assert project.variables == {"A": "1", "B": "two words"} and "two words" not in repr(project)
    assert [maid.maid_id for maid in project.registry.maids] == ["house", "own"]
    assert project.registry.allowed_commands == (("make", "test"), ("make", "own"))
    assert [route.maid_id for route in project.routes] == ["own", "house"]
    assert project.registry.project_roots == (place / "work",)
    assert (project.issue_template_dir, project.session_logs_dir) == (root / "forms", root / "logs")
    schema = Draft202012Validator(json.loads(published_schemas()["projects.schema.json"]))
    assert schema.is_valid({"projects": [{"name": "shop", "project_root": "~/x", "config_dir": "own"}]})
    assert not schema.is_valid({"projects": [{"name": "shop", "project_root": "~/x", "conf_dir": "own"}]})


def test_an_absent_file_and_a_bare_project_are_fine(place: Path) -> None:
    assert load(place, "") == ()
    [project] = load(place, f"projects: [{{name: a, project_root: {place}/work/not-there-yet}}]")
    assert project.routes == ROUTES and project.variables == {}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("name: a, project_root: work", "projects.yml:2: project_root: 'work' is relative"),
        ("name: a, project_root: /etc", "/etc is not inside any of the project_roots"),
        ("name: a, project_root: {work}, envpath: x", "unknown key (did you mean 'env_path'?)"),
        ("name: a/b, project_root: {work}", "does not match"),
        ("name: a, project_root: {work}, config_dir: none", "there is no folder"),
        ("name: a, project_root: {work}, config_dir: {work}/shop", "is inside project_roots, where maids work"),
        ("name: a, project_root: {work}, env_path: none", "can't be read"),
        ("name: a, project_root: {work}, env_path: shop", "must be a file"),
        ("name: a, project_root: {work}, issue_template_dir: none", "there is no folder"),
        ("name: a, project_root: {work}, session_logs_dir: shop/.env", "is no folder"),
        ("name: a", "is missing"),
    ],
)
def test_each_fault_is_named_with_its_line(place: Path, row: str, told: str) -> None:
    [fault] = faults(place, "projects:\n  - {" + row.replace("{work}", str(place / "work")) + "}\n")
    assert fault.startswith("projects.yml:2: ") and told in fault


@pytest.mark.parametrize("key", ["config_dir", "env_path", "issue_template_dir", "session_logs_dir"])
@pytest.mark.parametrize("written", ["~nobody-of-that-name/x", "a\\0b", "x" * 5000, "loop/x"])
def test_a_path_that_can_not_be_looked_up_is_a_fault(place: Path, key: str, written: str) -> None:
    (place / "config").mkdir(exist_ok=True)
    for folder in (place / "work" / "shop", place / "config"):
        (folder / "loop").symlink_to("loop")
    row = f'{{name: shop, project_root: "{place}/work/shop", {key}: "{written}"}}'
    [told] = faults(place, f"projects:\n  - {row}\n")
    assert told.startswith(f"projects.yml:2: {key}: can't be looked up: ") and len(told) < 300


def test_two_of_a_kind_are_refused(place: Path) -> None:
    row = f"  - {{name: a, project_root: {place}/work}}\n"
    first, second = faults(place, f"projects:\n{row}{row}")
    assert first == "projects.yml:3: name: the project 'a' is already defined at projects.yml:2"
    assert "projects.yml:2 has this folder already" in second


def test_faults_of_the_projects_own_files_are_told_as_theirs(place: Path) -> None:
    own = place / "config" / "own"
    more = "project_roots: [/]\n"
    (own / "maid_registry.yml").write_text(OWN.replace("maid_id: own", "maid_id: house") + more)
    (own / "intent_maid_routes.yml").write_text("routes:\n  - {intent: work, maid_id: nobody}\n")
    (place / "work" / "shop" / ".env").write_text("A=1\nno assignment\n")
    row = f"{{name: a, project_root: {place}/work/shop, config_dir: own, env_path: .env}}"
    told = faults(place, f"projects: [{row}]")
    files = ["maid_registry.yml", "maid_registry.yml", "intent_maid_routes.yml", ".env"]
    assert [Path(fault.split(":")[0]).name for fault in told] == files
    assert "already defined at maid_registry.yml:2" in told[1]


@given(st.lists(st.sampled_from("abc"), max_size=4), st.sets(st.lists(st.sampled_from("abc"), max_size=3).map(tuple)))
def test_the_innermost_project_around_a_folder_counts(folder: list[str], places: set[tuple[str, ...]]) -> None:
    projects = [
        ProjectDefinition("/".join(one), Path("/", *one), Path(), MaidRegistryFile(), ()) for one in sorted(places)
    ]
    found = project_of(Path("/", *folder), projects)
    around = [one for one in places if folder[: len(one)] == list(one)]
    inner = max(around, key=lambda one: len(tuple(one)), default=None)
    assert (found.name if found else None) == (None if inner is None else "/".join(inner))


def test_a_name_is_a_name_only_where_there_are_projects(tmp_path: Path) -> None:
    project = ProjectDefinition("shop", tmp_path, tmp_path, MaidRegistryFile(), ())
    assert folder_of_name("shop", [project]) == str(tmp_path)
    assert [folder_of_name(text, [project]) for text in ("/x", "~/x", "a/b")] == ["/x", "~/x", "a/b"]
    assert folder_of_name("shop", []) == "shop"
    with pytest.raises(ButlerError, match="did you mean 'shop'"):
        folder_of_name("shoop", [project])


def test_the_command_line_sends_names_as_they_are_and_folders_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert as_sent("shop") == "shop"
    assert as_sent("here") == str(tmp_path / "here")
    assert as_sent(".") == str(tmp_path)
    assert as_sent("./shop") == str(tmp_path / "shop")


def test_a_template_is_that_of_the_intent_or_the_default_and_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    forms = tmp_path / "forms"
    forms.mkdir()
    (forms / "default.md").write_text("---\na: b\n---\n\nBe kind.\n\n---\nNot front matter.\n")
    (forms / "fix.md").symlink_to(tmp_path / "secret")
    (forms / "big.md").write_text("x" * (2 * MOST_BYTES))
    assert issue_template(forms, "work") == "Be kind.\n\n---\nNot front matter."
    assert issue_template(forms, "fix") == issue_template(forms, "work")
    assert len(issue_template(forms, "big")) == MOST_BYTES
    assert issue_template(tmp_path / "none", "work") == issue_template(None, "work") == ""


def a_run(instruction: str) -> MaidRun:
    return MaidRun(
        "m-1", "t", "r", None, None, "u", "mia", "work", instruction, "/p", [], None, None, None, None, "failed",
        "it was cancelled", None, None, 0, 0, None, "2026-01-02T03:04:05Z", "", None,
    )  # fmt: skip


async def test_a_record_goes_nowhere_else_and_is_written_once(tmp_path: Path) -> None:
    logs, run = tmp_path / "logs", a_run("open with sesame-secret")
    await write_session_log(logs, run, [], Redactor(["sesame-secret"]))
    [path] = logs.iterdir()
    assert "sesame" not in path.read_text()
    path.write_text("kept")
    await write_session_log(logs, run, [], Redactor([]))
    assert path.read_text() == "kept"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    await write_session_log(tmp_path / "link", run, [], Redactor([]))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_file_of_variables_can_be_another_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "vars").write_text("A=2\n")
    assert read_environment({}, tmp_path).values["A"] == "1"
    assert read_environment({"BUTLER_ENV_PATH": "vars"}, tmp_path).values["A"] == "2"
    with pytest.raises(ConfigError, match="BUTLER_ENV_PATH: there is no file"):
        read_environment({"BUTLER_ENV_PATH": "none"}, tmp_path)


def test_serve_starts_with_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv("BUTLER_CONFIG_DIR", "before")
    monkeypatch.setenv("BUTLER_ENV_PATH", "before")
    monkeypatch.setattr(os, "execv", lambda _, argv: started.append(argv))
    assert entry.run(["serve", "--config-dir", str(tmp_path), "--env-path", str(tmp_path / "vars")]) == 0
    assert started[0][1].endswith("server.py")
    assert (os.environ["BUTLER_CONFIG_DIR"], os.environ["BUTLER_ENV_PATH"]) == (str(tmp_path), str(tmp_path / "vars"))
