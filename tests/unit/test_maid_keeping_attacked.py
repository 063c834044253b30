"""What a maid puts in the place of its tree, or inside of it, leads the keeping of trees nowhere else (D6, D9, D11)."""

from __future__ import annotations

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from butler.maids import keeping
from butler.maids.keeping import all_kept, keep_trees, kept_documents, kept_of, trim_kept
from butler.maids.worktree import prepare
from butler.maids.worktree.removing import remove_tree
from butler.redact import Redactor
from tests.support.projects import git, make_project

SECRET = "secret-value"
REDACTOR = Redactor([SECRET])


async def ready(tmp_path: Path) -> tuple[Path, Path]:
    """A project's tree in the folder of a task, and the data folder."""
    project = make_project(tmp_path / "p", {"a.txt": "a\n"})
    folder = tmp_path / "data" / "maids" / "run"
    return (await prepare(project, folder, include_uncommitted=False, number=1)).tree, tmp_path / "data"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the person's: a linked worktree with a secret, and open to others."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / ".git").write_text("gitdir: /elsewhere\n")
    (folder / "keys.txt").write_text(f"my {SECRET}")
    (folder / "keys.txt").chmod(0o644)
    os.mkfifo(folder / "pipe")
    folder.chmod(0o755)
    return folder


def untouched(folder: Path) -> bool:
    return (
        sorted(os.listdir(folder)) == [".git", "keys.txt", "pipe"]
        and (folder / "keys.txt").read_text() == f"my {SECRET}"
        and [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "keys.txt")] == [0o755, 0o644]
    )


async def test_a_link_in_the_place_of_the_tree_is_not_followed(tmp_path: Path, mine: Path) -> None:
    tree, data = await ready(tmp_path)
    shutil.rmtree(tree)
    tree.symlink_to(mine)
    keep_trees(data / "maids" / "run", data, REDACTOR)
    assert untouched(mine)
    assert all_kept(data) == []


@pytest.mark.parametrize("place", [keeping.FOLDER, f"{keeping.FOLDER}/run{keeping.HALF_MADE}"])
async def test_a_link_in_the_place_where_trees_are_kept_is_not_followed(tmp_path: Path, mine: Path, place: str) -> None:
    tree, data = await ready(tmp_path)
    (tree / "b.txt").write_text("b")
    link = data / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mine)
    with pytest.raises(keeping.NotKept):
        keep_trees(data / "maids" / "run", data, REDACTOR)
    assert untouched(mine)


async def test_a_link_beside_a_half_made_tree_or_beside_kept_ones_is_not_followed(tmp_path: Path, mine: Path) -> None:
    _, data = await ready(tmp_path)
    half = data / keeping.FOLDER / f"run{keeping.HALF_MADE}"
    half.mkdir(parents=True)
    (half / "tree-7").symlink_to(mine)
    keep_trees(data / "maids" / "run", data, REDACTOR)
    kept = kept_of(data, "run")
    assert kept is not None and [one.name for one in kept.trees] == ["tree-1"]
    (kept.folder / "tree-8").symlink_to(mine)
    assert trim_kept(data, older_than=0.0) == ["run"]
    assert untouched(mine)


async def test_what_git_stores_in_a_tree_is_not_kept_as_no_secret_can_be_masked_there(tmp_path: Path) -> None:
    tree, data = await ready(tmp_path)
    own = make_project(tree / "sub", {"in.txt": SECRET})
    assert git(own, "cat-file", "-p", "HEAD:in.txt") == SECRET
    keep_trees(data / "maids" / "run", data, REDACTOR)
    [kept] = all_kept(data)
    assert (kept.trees[0] / "sub" / "in.txt").read_text() == "***"
    assert not list(kept.trees[0].rglob(".git"))


@pytest.mark.parametrize("call", ["write_bytes", "replace"])
async def test_a_kill_while_a_secret_is_masked_loses_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    tree, data = await ready(tmp_path)
    (tree / "telling.txt").write_text(f"it is {SECRET}")

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(Path, call, killed)
        # A dead process tidies nothing up.
        dying.setattr(keeping, "remove_tree", lambda path: None if path.is_dir() else remove_tree(path))
        with pytest.raises(Killed):
            keep_trees(data / "maids" / "run", data, REDACTOR)
    keep_trees(data / "maids" / "run", data, REDACTOR)
    [kept] = all_kept(data)
    assert os.listdir(kept.folder) == ["tree-1"]
    assert (kept.trees[0] / "telling.txt").read_text() == "it is ***"


async def test_a_huge_sparse_file_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    tree, data = await ready(tmp_path)
    with (tree / "huge").open("wb") as file:
        file.truncate(1 << 40)
    keep_trees(data / "maids" / "run", data, REDACTOR)
    [kept] = all_kept(data)
    assert os.listdir(kept.trees[0]) == ["a.txt"]


def test_several_may_clean_and_look_at_the_same_time(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(12)]
    for name in names:
        tree = tmp_path / keeping.FOLDER / name / "tree-1"
        tree.mkdir(parents=True)
        for number in range(20):
            (tree / f"d{number}").mkdir()
            (tree / f"d{number}" / "file").write_text("x")
    together = Barrier(6)

    def clean(number: int) -> None:
        together.wait(30)
        if number % 2:
            trim_kept(tmp_path, older_than=0.0)
        else:
            assert all(len(kept_documents(tmp_path, name)) <= 1 for name in names)
            all_kept(tmp_path)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(clean, range(6))) == [None] * 6
    assert os.listdir(tmp_path / keeping.FOLDER) == []
