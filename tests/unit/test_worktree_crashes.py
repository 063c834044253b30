"""A kill in the middle of an apply: the repeat finishes it or finds it done, never half or twice (D6)."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.worktree import Applied, Conflict, Workspace, apply, diff, prepare
from tests.support.projects import everything, files_of, make_project, write

LINES = "".join(f"line {number}\n" for number in range(20))
_APPLY = """
import asyncio, json, sys
from butler.maids.worktree import Workspace, apply
asyncio.run(apply(Workspace.from_json(json.load(open(sys.argv[1]))), sys.argv[2]))
"""


async def _made(tmp_path: Path) -> tuple[Path, Workspace, str]:
    project = make_project(tmp_path / "p", {"a": LINES, "d": "d\n", "e/f": "f\n", "z": "z\n", "run": "r\n"})
    made = await prepare(project, tmp_path / "data/maids/run", include_uncommitted=False, number=1)
    write(made.tree, {"a": LINES.replace("line 2\n", "maid\n"), "new/n": "n\n", "z": "Z\n"})
    (made.tree / "d").unlink()
    write(made.tree, {"d/inside": "i\n"})
    (made.tree / "e/f").unlink()
    (made.tree / "run").chmod(0o755)
    return project, made, (await diff(made)).sha256


async def _killed(made: Workspace, sha256: str, point: str) -> None:
    """Apply in a process of its own that is killed at a named point."""
    script = [sys.executable, "-c", _APPLY, str(made.state / "workspace.json"), sha256]
    variables = {**os.environ, "BUTLER_CRASH_AT": point}
    done = await asyncio.to_thread(subprocess.run, script, env=variables, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    "point",
    ["planned", "step:1", "stepped:2", "temp:2", "done", "recorded"],
)
async def test_a_repeat_after_a_kill_finishes_the_apply(tmp_path: Path, point: str) -> None:
    project, made, sha256 = await _made(tmp_path)
    write(project, {"a": LINES.replace("line 17\n", "person\n")})
    await _killed(made, sha256, f"maid_apply_{point}")
    applied = await apply(made, sha256)
    assert isinstance(applied, Applied) and applied.merged == ("a",)
    assert applied.already == (point == "recorded")
    expected = files_of(made.tree)
    expected["a"] = ("file", False, LINES.replace("line 2\n", "maid\n").replace("line 17\n", "person\n").encode())
    assert files_of(project) == expected
    again = await apply(made, sha256)
    assert isinstance(again, Applied) and again.already


async def test_an_edit_after_the_kill_is_merged_too_and_never_lost(tmp_path: Path) -> None:
    project, made, sha256 = await _made(tmp_path)
    await _killed(made, sha256, "maid_apply_stepped:3")
    assert (project / "a").read_text() != LINES  # removals first, then "a"
    write(project, {"a": (project / "a").read_text().replace("line 17\n", "person\n")})
    assert isinstance(await apply(made, sha256), Applied)
    assert (project / "a").read_text() == LINES.replace("line 2\n", "maid\n").replace("line 17\n", "person\n")
    assert files_of(project).keys() == files_of(made.tree).keys()


async def test_a_conflicting_edit_after_the_kill_takes_everything_back(tmp_path: Path) -> None:
    project, made, sha256 = await _made(tmp_path)
    write(project, {"y": "person\n"})
    before = everything(project)
    await _killed(made, sha256, "maid_apply_temp:3")
    assert everything(project) != before
    write(project, {"z": "person\n"})
    outcome = await apply(made, sha256)
    assert isinstance(outcome, Conflict) and [file.path for file in outcome.files] == ["z"]
    write(project, {"z": "z\n"})
    assert everything(project) == before
    assert isinstance(await apply(made, sha256), Applied)
    assert sha256 in (made.state / "applied.json").read_text()


async def test_a_file_that_cannot_be_written_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, made, sha256 = await _made(tmp_path)
    before, rename = everything(project), os.rename

    def full_disk(old: str, new: str, **folders: int) -> None:
        if new == "run":
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(old, new, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full_disk)
        with pytest.raises(ButlerError, match=r"run could not be written.*No space left.*Nothing was applied"):
            await apply(made, sha256)
    assert everything(project) == before
    assert isinstance(await apply(made, sha256), Applied)


async def test_something_put_in_a_files_place_after_the_kill_is_a_conflict(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"b": "b\n", "place/x": "x\n"})
    made = await prepare(project, tmp_path / "data/maids/run", include_uncommitted=False, number=1)
    (made.tree / "place/x").unlink()
    (made.tree / "place").rmdir()
    write(made.tree, {"b": "B\n", "place": "a file\n"})
    sha256 = (await diff(made)).sha256
    await _killed(made, sha256, "maid_apply_stepped:2")
    write(project, {"place/y": "person\n"})
    outcome = await apply(made, sha256)
    assert isinstance(outcome, Conflict) and [file.path for file in outcome.files] == ["place"]
    assert {name: content for name, (_, _, content) in files_of(project).items()} == {
        "b": b"b\n", "place/x": b"x\n", "place/y": b"person\n",
    }  # fmt: skip
