"""Trees are kept as evidence where a row asks for it, without secrets and within bounds (D6, D9)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from butler.maids import keeping, store
from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.keeping import all_kept, keep_trees, kept_documents, kept_of, trim_kept
from butler.maids.worktree import prepare
from butler.redact import Redactor
from config.maid_types import RetryPolicy
from tests.support.headless import says
from tests.support.maid_brain import maid_brain, works
from tests.support.parts import ADMIN
from tests.support.projects import git, make_project

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")
SECRET = "secret-value"
REDACTOR = Redactor([SECRET])


async def fails(launch: Launch, watcher: Watcher) -> Finished:
    (launch.tree / "out.txt").write_text(f"wrong {SECRET}\n")
    (launch.home / "token").write_text(SECRET)
    return Finished(0)


async def finished(home: Path, act: object, keep: str) -> tuple[Path, str]:
    async with maid_brain(
        home, [act], says("", DELEGATE), says("ok"), keep_tree=keep, retry=RetryPolicy(1)  # type: ignore[list-item]
    ) as house:  # fmt: skip
        await house.brain.say("please")
        for waiting in await house.brain.pending():
            await house.brain.decide(waiting, "approve")
            await house.brain.go()
        [task] = await house.tasks()
        assert git(house.project, "worktree", "list").count("\n") == 1
        assert task.is_over and not (home / "data" / "maids" / task.maid_run_id).exists()
        return home / "data", task.maid_run_id


@pytest.mark.parametrize(
    ("act", "keep", "is_kept"),
    [(fails, "never", False), (fails, "failed", True), (fails, "always", True), (works, "failed", False),
     (works, "always", True)],
)  # fmt: skip
async def test_a_tree_is_kept_where_the_row_asks_for_it(tmp_path: Path, act: object, keep: str, is_kept: bool) -> None:
    data, task = await finished(tmp_path, act, keep)
    kept = kept_of(data, task)
    assert (kept is not None) is is_kept
    if kept is None:
        assert all_kept(data) == [] == kept_documents(data, task)
        return
    [tree] = kept.trees
    assert [one["path"] for one in kept_documents(data, task)] == [str(tree)]
    assert (tree / "readme.txt").read_text() == "hello\n" and not (tree / ".git").exists()
    assert {stat.S_IMODE(place.stat().st_mode) for place in (kept.folder.parent, kept.folder, tree)} == {0o700}
    assert not [path for path in kept.folder.rglob("*") if path.is_file() and SECRET in path.read_text()]
    if act is fails:
        assert (tree / "out.txt").read_text() == "wrong ***\n"


async def test_the_start_keeps_what_a_killed_server_had_not_and_forgets_what_nobody_knows(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [fails], says("", DELEGATE), says("ok"), keep_tree="failed") as house:
        supervisor = house.brain.faculties.maids
        assert supervisor is not None
        task = await house.database.write(
            lambda connection: store.add(
                connection, house.desk.read(DELEGATE[1]), ADMIN, thread_id="thread", run_id="run-1"
            )
        )
        folder = supervisor.means.folder_of(task)
        made = await prepare(house.project, folder, include_uncommitted=True, number=1)
        (made.tree / "out.txt").write_text("evidence")
        await house.database.write(
            lambda connection: store.change(connection, task.maid_run_id, maid_id="m", workspace=made.to_json())
        )
        await house.database.write(lambda connection: store.finish(connection, task.maid_run_id, "failed", "so"))
        strange = tmp_path / "data" / keeping.FOLDER / "unknown" / "tree-1"
        strange.mkdir(parents=True)
        await supervisor.sweep_leftovers()
        await supervisor.sweep_leftovers()  # the second one does not take it away
        kept = all_kept(tmp_path / "data")
        assert [one.maid_run_id for one in kept] == [task.maid_run_id]
        assert (kept[0].trees[0] / "out.txt").read_text() == "evidence"
        assert not folder.exists()
        await supervisor.forget([task])
        assert all_kept(tmp_path / "data") == []


async def ready(tmp_path: Path) -> tuple[Path, Path]:
    """A project's tree in the folder of a task, and the data folder."""
    project = make_project(tmp_path / "p", {"a.txt": "a\n"})
    folder = tmp_path / "data" / "maids" / "run"
    return (await prepare(project, folder, include_uncommitted=False, number=1)).tree, tmp_path / "data"


async def test_what_a_maid_left_in_its_tree_hurts_nobody(tmp_path: Path) -> None:
    tree, data = await ready(tmp_path)
    mine = tmp_path / "mine.txt"
    mine.write_text(f"my {SECRET}")
    mine.chmod(0o644)
    os.link(mine, tree / "linked.txt")
    os.symlink(mine, tree / "pointer")
    os.symlink(f"/nowhere/{SECRET}", tree / "telling")
    os.mkfifo(tree / "pipe")
    (tree / f"named-{SECRET}").write_text("x")
    (tree / "closed").mkdir()
    (tree / "closed" / "in.txt").write_text(SECRET)
    (tree / "closed").chmod(0)
    (tree / "run.sh").write_bytes(b"\xff\x00" + SECRET.encode())
    (tree / "run.sh").chmod(0o4755)
    keep_trees(data / "maids" / "run", data, REDACTOR)
    [kept] = all_kept(data)
    found = {path.relative_to(kept.trees[0]).as_posix() for path in kept.trees[0].rglob("*")}
    assert found == {"a.txt", "linked.txt", "pointer", "closed", "closed/in.txt", "run.sh"}
    assert mine.read_text() == f"my {SECRET}" and stat.S_IMODE(mine.stat().st_mode) == 0o644
    assert (kept.trees[0] / "linked.txt").read_text() == "my ***"
    assert (kept.trees[0] / "closed" / "in.txt").read_text() == "***"
    assert (kept.trees[0] / "run.sh").read_bytes() == b"\xff\x00***"
    assert stat.S_IMODE((kept.trees[0] / "run.sh").stat().st_mode) == 0o700


@pytest.mark.parametrize("bound", ["MOST_BYTES_EACH", "MOST_ENTRIES_EACH"])
async def test_a_tree_that_is_too_large_is_not_kept_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    tree, data = await ready(tmp_path)
    monkeypatch.setattr(keeping, bound, 5)
    for number in range(6):
        (tree / f"{number}.txt").write_text("xx")
    with pytest.raises(keeping.NotKept):
        keep_trees(data / "maids" / "run", data, REDACTOR)
    assert os.listdir(data / keeping.FOLDER) == []


async def test_a_tree_that_is_too_deep_is_not_kept(tmp_path: Path) -> None:
    tree, data = await ready(tmp_path)
    here = os.open(tree, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        here, above = os.open("d" * 200, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    with pytest.raises(keeping.NotKept):
        keep_trees(data / "maids" / "run", data, REDACTOR)
    assert os.listdir(data / keeping.FOLDER) == []


async def test_what_a_crash_left_half_made_is_finished(tmp_path: Path) -> None:
    tree, data = await ready(tmp_path)
    half = data / keeping.FOLDER / f"run{keeping.HALF_MADE}"
    half.mkdir(parents=True)
    (tree / ".git").unlink()
    tree.rename(half / "tree-1")
    assert all_kept(data) == []
    keep_trees(data / "maids" / "run", data, REDACTOR)
    assert [one.maid_run_id for one in all_kept(data)] == ["run"]
    assert keep_trees(data / "maids" / "run", data, REDACTOR) == 0
    assert [one.maid_run_id for one in all_kept(data)] == ["run"]


def test_kept_trees_are_bounded_in_number_size_and_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_KEPT", 4)
    monkeypatch.setattr(keeping, "MOST_BYTES", 2_500)
    for number, age in enumerate([0, 1, 2, 3, 4, 100 * keeping.LONGEST_SECONDS]):
        tree = tmp_path / keeping.FOLDER / f"run-{number}" / "tree-1"
        tree.mkdir(parents=True)
        (tree / "file").write_bytes(b"x" * (1_000 if number < 3 else 10))
        moment = os.stat(tree).st_mtime - age
        os.utime(tree.parent, (moment, moment))
    assert trim_kept(tmp_path) == ["run-2", "run-3", "run-4", "run-5"]
    assert [one.maid_run_id for one in all_kept(tmp_path)] == ["run-0", "run-1"]
    assert trim_kept(tmp_path, {"run-1"}) == ["run-0"]
    assert trim_kept(tmp_path, older_than=0.0) == ["run-1"]
