"""What lies beside a maid's tree is Butler's own: changed by others it is not believed, and nothing of it runs (D6)."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.worktree import Applied, Workspace, apply, diff, leftovers, mend, prepare
from butler.maids.worktree.removing import LATER_SECONDS, remove_folder
from butler.maids.worktree.sealing import sealed
from tests.support.headless import says
from tests.support.maid_brain import maid_brain, works
from tests.support.projects import everything, git, make_project, write
from tests.unit.test_maid_graph import DELEGATE, tools_of


async def _work(tmp_path: Path, project: Path | None = None) -> Workspace:
    project = project or make_project(tmp_path / "p", {"a": "a\n"})
    made = sealed(await prepare(project, tmp_path / "data/maids/run", include_uncommitted=True, number=1))
    return Workspace.from_json(json.loads(json.dumps(made.to_json())))


@pytest.mark.parametrize(
    "name",
    ["git/config", "git/info/attributes", "git/info/exclude", "git/hooks/post-index-change", "base.index",
     "git/objects/info/alternates", "git/refs/x"],
)  # fmt: skip
async def test_a_changed_setting_is_seen_before_git_reads_it(tmp_path: Path, name: str) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "right\n"})
    found = await diff(made)
    (made.state / name).parent.mkdir(exist_ok=True, parents=True)
    with (made.state / name).open("a") as file:
        file.write("\n")
    for call in (diff(made), apply(made, found.sha256)):
        with pytest.raises(ButlerError, match="own files beside"):
            await call
    assert not await mend(made)
    assert (made.project_root / "a").read_text() == "a\n"


async def test_using_a_tree_does_not_break_its_seal(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "one\n" * 300, "b": "b\n"})
    await diff(made)
    git(made.tree, "add", "-A")
    git(made.tree, "commit", "-qm", "work")
    found = await diff(made)
    assert await mend(made)
    assert isinstance(await apply(made, found.sha256), Applied)
    again = await apply(made, found.sha256)
    assert isinstance(again, Applied) and again.already


@pytest.mark.parametrize("name", ["applied.json", "apply/journal.json"])
async def test_a_record_of_applying_that_is_not_butlers_is_not_believed(tmp_path: Path, name: str) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "right\n"})
    found = await diff(made)
    forged = {"sha256": found.sha256, "paths": ["a"], "merged": [], "token": "x", "steps": []}
    write(made.state, {name: "0" * 64 + "\n" + json.dumps(forged)})
    with pytest.raises(ButlerError, match="own files beside"):
        await apply(made, found.sha256)


async def test_tampering_beside_the_tree_ends_the_task_and_runs_nothing(tmp_path: Path) -> None:
    async def tampers(launch: Launch, watcher: Watcher) -> Finished:
        state = launch.tree.parent / "state-1/git"
        with (state / "config").open("a") as file:
            file.write(f'[filter "evil"]\n\tclean = touch {tmp_path}/ran; cat\n\tsmudge = touch {tmp_path}/ran; cat\n')
        (state / "info/attributes").write_text("* filter=evil\n")
        return await works(launch, watcher)

    async with maid_brain(tmp_path, [tampers], says("", DELEGATE), says("ok")) as house:
        assert tools_of(await house.brain.say("please")) == []
        assert [one.failure_class for one in await house.attempts()] == ["policy_violation"]
        assert not (tmp_path / "ran").exists() and not (house.project / "out.txt").exists()


async def test_a_note_that_names_other_places_removes_nothing_there(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    victim = tmp_path / "victim"
    write(victim, {"keep": "k\n"})
    forged = replace(made, top=victim, tree=victim)
    (made.state / "workspace.json").write_text(json.dumps(forged.to_json()))
    remove_folder(made.folder)
    assert (victim / "keep").exists() and not made.folder.exists()


async def test_the_note_of_a_worktree_is_removed_once_its_repository_is_back(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    project, away = made.project_root, tmp_path / "away"
    project.rename(away)
    remove_folder(made.folder)
    assert {path.name for path in made.folder.rglob("*")} == {"state-1", "workspace.json"}
    away.rename(project)
    assert git(project, "worktree", "list").count("\n") == 2
    assert await leftovers(tmp_path / "data", []) == ("run",)
    assert git(project, "worktree", "list").count("\n") == 1 and not made.folder.exists()


async def test_a_repository_that_never_comes_back_is_forgotten_after_a_month(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    shutil.rmtree(made.project_root)
    remove_folder(made.folder)
    note = made.state / "workspace.json"
    os.utime(note, (time.time() - LATER_SECONDS - 60,) * 2)
    await leftovers(tmp_path / "data", [])
    assert not made.folder.exists()


@pytest.mark.parametrize("kind", ["none", "empty", "commits"])
async def test_butlers_own_data_inside_of_a_project_is_never_copied(tmp_path: Path, kind: str) -> None:
    project = tmp_path / "p"
    write(project, {"a": "a\n", ".butler/owner.token": "secret\n", ".butler/maids/x/y": "y\n"})
    if kind != "none":
        git(project, "init", "-q")
    if kind == "commits":
        git(project, "add", "a")
        git(project, "commit", "-qm", "first")
    made = await prepare(project, project / ".butler/maids/run", include_uncommitted=True, number=1)
    assert not (made.tree / ".butler").exists() and (made.tree / "a").exists()
    write(made.tree, {"b": "b\n"})
    assert [change.path for change in (await diff(made)).changes] == ["b"]
    assert ".butler/owner.token" in everything(project)
