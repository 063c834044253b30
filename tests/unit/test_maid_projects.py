"""Which project a maid may work for, and what is known of its files."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.desk import Desk
from butler.maids.facts import health_of, project_files
from butler.maids.pathglobs import first_match
from butler.maids.projects import resolve_project
from config.maid_types import Endpoint, MaidDefinition, MaidRegistryFile


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """A folder with an allowed root `work`, a project in it, and one outside."""
    for name in ("work/app", "workshop", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("")
    (tmp_path / "work" / "way-out").symlink_to(tmp_path / "secret")
    (tmp_path / "way-in").symlink_to(tmp_path / "work" / "app")
    (tmp_path / "work" / "circle").symlink_to(tmp_path / "work" / "circle")
    return tmp_path


@pytest.mark.parametrize("name", ["work", "work/app", "work/../work/app/.", "way-in"])
def test_a_root_and_what_lies_below_it_are_allowed_with_links_resolved(roots: Path, name: str) -> None:
    found = resolve_project(f"{roots}/{name}", [roots / "work"])
    assert found == (roots / name).resolve()


@pytest.mark.parametrize(
    "name", ["", "secret", "workshop", "work/way-out", "work/../secret", "nothing", "work/way-out/x"]
)
def test_what_lies_outside_is_forbidden_whether_it_exists_or_not(roots: Path, name: str) -> None:
    with pytest.raises(ButlerError) as caught:
        resolve_project(f"{roots}/{name}", [roots / "work"])
    assert (caught.value.code, caught.value.status) == ("forbidden", 403)


@pytest.mark.parametrize("name", ["work/file", "work/none", "work/circle", "work/a\0b", f"work/{'x' * 300}"])
def test_what_is_no_folder_is_refused(roots: Path, name: str) -> None:
    with pytest.raises(ButlerError) as caught:
        resolve_project(f"{roots}/{name}", [roots / "work"])
    assert caught.value.code in ("invalid_request", "forbidden")
    assert "\0" not in caught.value.detail


@pytest.mark.parametrize("text", ["", "work", "./work", "~other/work", "~"])
def test_a_path_that_is_not_absolute_is_refused(roots: Path, text: str) -> None:
    with pytest.raises(ButlerError) as caught:
        resolve_project(text, [roots, Path("/")])
    assert caught.value.code == "invalid_request"


def test_home_and_a_root_behind_a_link_are_understood(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(roots))
    assert resolve_project("~/work/app", [roots / "way-in"]) == roots / "work" / "app"
    with pytest.raises(ButlerError):
        resolve_project("~/work/app", [])


async def test_files_of_a_repository_are_those_that_git_does_not_ignore(tmp_path: Path) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("a.py", "sub/ü\n.txt", "ignored.log", "sub/deep/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("*.log\n")
    found = await project_files(tmp_path)
    assert sorted(found.paths) == [".gitignore", "a.py", "sub/deep/b.py", "sub/ü\n.txt"] and not found.is_cut
    assert sorted((await project_files(tmp_path / "sub")).paths) == ["deep/b.py", "ü\n.txt"]
    cut = await project_files(tmp_path, limit=2)
    assert len(cut.paths) == 2 and cut.is_cut


async def test_files_of_another_folder_are_walked_without_following_links(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "node_modules/c.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = await project_files(tmp_path)
    assert found.paths == ("a.py", "loop", "sub/b.py")
    assert (await project_files(tmp_path, limit=1)).is_cut


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("*.py", "a/b/c.py", True),
        ("./*.py", "a/b/c.py", False),
        ("/a.py", "a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", True),
        ("src/**/b.py", "src/b.py", True),
        ("**/**/**/b.py", "x/b.py", True),
        ("a/**/c/**/e", "a/b/c/d/c/e", True),
        ("a/**/c/**/e", "a/b/d/e", False),
        ("*.PY", "a.py", False),
    ],
)
def test_a_glob_on_files_knows_folders(glob: str, path: str, matches: bool) -> None:
    assert first_match([path], [glob]) == (path if matches else None)


def test_a_glob_of_many_spans_takes_no_time() -> None:
    assert first_match(["a/" * 500 + "b"], ["**/a/" * 40 + "c"]) is None


def test_health_names_the_missing_program_variable_or_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def maid(command: str = "agent", **more: object) -> MaidDefinition:
        return MaidDefinition("m", "cli", "M", "", None, "", (command,), **more)  # type: ignore[arg-type]

    environ = {"PATH": os.fspath(tmp_path)}
    assert health_of(maid(), environ).ok
    assert health_of(maid("tools/agent"), environ).ok
    assert health_of(maid("none"), environ).detail == "there is no program 'none'"
    assert health_of(maid(enabled=False), environ).detail == "it is disabled"
    endpoint = Endpoint("https://host", api_key_env="PROVIDER")
    named = maid(env=("PATH", "LANG", "MY_TOKEN"), endpoint=endpoint)
    assert health_of(named, environ).detail == "not set: MY_TOKEN, PROVIDER"
    assert health_of(named, {**environ, "MY_TOKEN": "x", "PROVIDER": "y"}).ok  # LANG is no key
    assert "bwrap" in health_of(maid(sandbox="bubblewrap"), environ).detail


@pytest.mark.parametrize(
    ("intent", "instruction", "word"),
    [("a\nb /approve", "do it", "intent"), ("", "do it", "intent"), ("work", " \n ", "instruction"),
     ("work", "do\0it", "instruction")],
)  # fmt: skip
def test_a_task_without_words_or_with_an_odd_intent_is_refused(
    roots: Path, intent: str, instruction: str, word: str
) -> None:
    desk = Desk(MaidRegistryFile(project_roots=(roots / "work",)))
    with pytest.raises(ButlerError, match=word):
        desk.read({"intent": intent, "instruction": instruction})
    assert desk.read({"intent": "work", "instruction": "do it"}).intent == "work"
