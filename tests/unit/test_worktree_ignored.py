"""What git ignores in a maid's tree: only what the project itself ignores, and never what a check names (D6, D8)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.contract import Diff, Finished, Launch, Watcher
from butler.maids.worktree import Applied, Workspace, apply, diff, prepare
from tests.support.headless import says
from tests.support.maid_brain import maid_brain
from tests.support.projects import git, make_project, write
from tests.unit.test_maid_graph import DELEGATE, approve_review, tools_of


async def _work(project: Path, tmp_path: Path, *wanted: str) -> Workspace:
    made = await prepare(project, tmp_path / "data/maids/run", include_uncommitted=True, number=1)
    return Workspace.from_json(replace(made, wanted=wanted).to_json())


def _paths(found: Diff) -> set[str]:
    return {change.path for change in found.changes}


async def test_rules_that_a_maid_wrote_hide_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n", ".gitignore": "*.log\n/build/\n", "sub/.gitignore": "gen/\n"})
    made = await _work(project, tmp_path)
    write(
        made.tree,
        {
            ".gitignore": "*.log\nout.txt\nall/\nhid/\n", "out.txt": "o\n", "x.log": "x\n", "all/in/a": "a\n",
            "all/x.log": "x\n", "all/node_modules/m": "m\n", "build/b": "b\n", "sub/gen/g": "g\n",
            "fresh/.gitignore": "*\n", "fresh/f": "f\n", "__pycache__/p": "p\n",
        },
    )  # fmt: skip
    make_project(made.tree / "hid/repo", {"h": "h\n", ".gitignore": "k\n"})
    write(made.tree, {"hid/repo/k": "k\n"})
    found = await diff(made)
    # `build/` is no longer ignored: the maid took the rule away.
    assert _paths(found) == {
        ".gitignore", "out.txt", "all/in/a", "fresh/.gitignore", "fresh/f", "hid/repo/h", "hid/repo/k",
        "hid/repo/.gitignore", "build/b",
    }  # fmt: skip
    assert any(
        note == "Ignored files are not part of the change: __pycache__/, sub/gen/, x.log." for note in found.notes
    )
    assert await diff(made) == found
    assert isinstance(await apply(made, found.sha256), Applied)
    assert (project / "out.txt").read_text() == "o\n" and not (project / "x.log").exists()


async def test_files_that_checks_name_are_part_of_the_change_also_where_the_project_ignores_them(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "p", {"in/a": "a\n", ".gitignore": "dist/\n*.txt\n"})
    wanted = ("out.txt", "./dist/../dist/d", "gone.txt", "link", "../up.txt", "/etc/passwd", ".git/x", "way/d")
    made = await _work(project / "in", tmp_path, *wanted)
    write(made.tree, {"out.txt": "o\n", "dist/d": "d\n", "dist/e": "e\n", ".git/x": "no\n"})
    write(made.top, {"up.txt": "no\n"})
    os.symlink("out.txt", made.tree / "link")
    os.symlink("dist", made.tree / "way")
    found = await diff(made)
    assert _paths(found) == {"out.txt", "dist/d", "link", "way"} and found.left_out == (".git/x",)
    assert isinstance(await apply(made, found.sha256), Applied)
    assert (project / "in/dist/d").exists() and not (project / "in/dist/e").exists()


async def test_a_named_file_in_a_submodule_is_told_to_be_left_out(tmp_path: Path) -> None:
    library = make_project(tmp_path / "lib", {"l": "l\n"})
    project = make_project(tmp_path / "p", {"a": "a\n"})
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(project, "commit", "-qm", "submodule")
    made = await _work(project, tmp_path, "lib/x")
    write(made.tree, {"lib/x": "x\n"})
    found = await diff(made)
    assert found.is_empty and found.left_out == ("lib/x",)


@pytest.mark.parametrize("name", [".gitignore", "sub/.gitattributes", "nested/.git/HEAD"])
async def test_a_pipe_that_git_would_read_is_refused_at_once(tmp_path: Path, name: str) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await _work(project, tmp_path)
    make_project(made.tree / "nested", {"n": "n\n"})
    (made.tree / "sub").mkdir()
    (made.tree / name).unlink(missing_ok=True)
    os.mkfifo(made.tree / name)
    with pytest.raises(ButlerError, match="is no plain file") as refused:
        await diff(made)
    assert refused.value.code == "invalid_request"


async def test_what_passes_is_what_is_applied_although_the_project_ignores_it(tmp_path: Path) -> None:
    async def hides(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / ".gitignore").write_text("*\n")
        (launch.tree / "out.txt").write_text("done\n")
        return Finished(0)

    make_project(tmp_path / "project", {"readme.txt": "hello\n", ".gitignore": "*.txt\n"})
    async with maid_brain(tmp_path, [hides], says("", DELEGATE), says("ok")) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["session_complete"]
        await approve_review(house, state)
        assert (house.project / "out.txt").read_text() == "done\n"
        assert [one.status for one in await house.tasks()] == ["succeeded"]


async def test_a_pipe_in_git_s_place_fails_the_attempt_and_is_told_to_the_maid(tmp_path: Path) -> None:
    async def traps(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / "out.txt").write_text("done\n")
        os.mkfifo(launch.tree / ".gitignore")
        return Finished(0)

    async def mends(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / ".gitignore").unlink()
        return Finished(0)

    async with maid_brain(tmp_path, [traps, mends], says("", DELEGATE), says("ok")) as house:
        assert tools_of(await house.brain.say("please")) == ["session_complete"]
        assert [one.failure_class for one in await house.attempts()] == ["wrong_output", None]
        assert "no plain file" in house.fake.launches[1].prompt
