"""Applies a plan so that a kill at any moment neither loses half of it nor does it twice (D6).

The plan with all contents lies in the state folder before the first file of the person is touched. A number is
written down before each step. A repeat goes on at that number; where the person edited a file in between, all steps
are taken back and the plan is made anew.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.maids.worktree.changes import shown
from butler.maids.worktree.ground import Found, Wanted, drop_temp, look, put, take_away
from butler.maids.worktree.removing import remove_tree
from butler.maids.worktree.sealing import with_mark, without_mark
from butler.maids.worktree.workspace import Applied, Workspace

_MOVED = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
"""Errors that say that something else is in a path's place now."""


@dataclass(frozen=True)
class Step:
    """One file: what was there when the plan was made, and what has to be."""

    path: str
    before: Found
    after: Wanted


@dataclass(frozen=True)
class Journal:
    """A whole plan; removals come first. `token` names temporary files, `merged` were edited on both sides."""

    sha256: str
    token: str
    steps: tuple[Step, ...]
    merged: tuple[str, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The journal that was written down."""
        steps = (Step(s["path"], Found(**s["before"]), Wanted(**s["after"])) for s in data["steps"])
        return cls(data["sha256"], data["token"], tuple(steps), tuple(data["merged"]))


def plan_folder(workspace: Workspace) -> Path:
    """Where plan, contents and progress lie until it is done."""
    return workspace.state / "apply"


def staged(workspace: Workspace, path: str) -> Path:
    """The new content of a path, as a file or link."""
    return plan_folder(workspace) / "new" / path


def write_journal(workspace: Workspace, journal: Journal) -> None:
    """Keep what is there now, then write the plan down: from here on it will be finished or taken back."""
    folder = plan_folder(workspace)
    (folder / "old").mkdir()
    for number, step in enumerate(journal.steps):
        if step.before.kind in {"file", "link"}:
            shutil.copy2(workspace.origin / step.path, folder / "old" / str(number), follow_symlinks=False)
        if step.after.kind == "file":
            sync(staged(workspace, step.path))
    write_durably(folder / "journal.json", with_mark(workspace, json.dumps(asdict(journal))))
    crash_point("maid_apply_planned")


def read_journal(workspace: Workspace) -> Journal | None:
    """The plan that was begun and not finished, if any."""
    try:
        text = (plan_folder(workspace) / "journal.json").read_text("utf-8")
    except FileNotFoundError:
        return None
    return Journal.from_json(json.loads(without_mark(workspace, text)))


def execute(workspace: Workspace, journal: Journal) -> Applied | None:
    """Do the steps that are not done; None: a file is not as it was, everything has been taken back.

    Raises:
        ButlerError: a file could not be written; everything has been taken back.
    """
    begun = _begun(workspace)
    with (plan_folder(workspace) / "progress").open("a", encoding="ascii") as progress:
        for number in range(max(begun, 0), len(journal.steps)):
            step = journal.steps[number]
            now = look(workspace.origin, step.path)
            if step.after.is_met(now):
                continue
            if not _is_before(step, now):
                _take_back(workspace, journal)
                return None
            progress.write(f"{number}\n")
            progress.flush()
            os.fsync(progress.fileno())
            crash_point("maid_apply_step")
            try:
                _do(workspace, journal, number)
            except OSError as error:
                _take_back(workspace, journal)
                if error.errno in _MOVED:
                    return None
                raise ButlerError(
                    "internal",
                    f"{shown(step.path)} could not be written in {workspace.origin}: {error.strerror}. Nothing was "
                    "applied. Make it writable (and room on the disk), then approve again.",
                ) from error
            crash_point("maid_apply_stepped")
    crash_point("maid_apply_done")
    applied = Applied(tuple(shown(step.path) for step in journal.steps), journal.merged)
    told = json.dumps({"sha256": journal.sha256, **asdict(applied)})
    write_durably(workspace.state / "applied.json", with_mark(workspace, told))
    crash_point("maid_apply_recorded")
    remove_tree(plan_folder(workspace))
    return applied


def read_applied(workspace: Workspace) -> tuple[str, Applied] | None:
    """The SHA-256 of what has been applied, and what it was, if it has."""
    try:
        text = (workspace.state / "applied.json").read_text("utf-8")
    except FileNotFoundError:
        return None
    data = json.loads(without_mark(workspace, text))
    return data["sha256"], Applied(tuple(data["paths"]), tuple(data["merged"]), already=True)


def _do(workspace: Workspace, journal: Journal, number: int) -> None:
    step = journal.steps[number]
    if step.after.kind == "absent":
        take_away(workspace.origin, step.path, workspace.project_root)
        return
    mode = step.before.mode if step.before.kind == "file" else None
    source = staged(workspace, step.path)
    put(workspace.origin, step.path, source, step.after, mode, _temp(journal, number))


def _take_back(workspace: Workspace, journal: Journal) -> None:
    """Undo the steps that were done, last first; files that the person edited since stay as they are."""
    for number in range(_begun(workspace), -1, -1):
        step = journal.steps[number]
        drop_temp(workspace.origin, step.path, _temp(journal, number))
        now = look(workspace.origin, step.path)
        if not step.after.is_met(now) or _is_before(step, now):
            continue
        if step.before.kind in {"file", "link"}:
            wanted = Wanted("file" if step.before.kind == "file" else "link")
            old = plan_folder(workspace) / "old" / str(number)
            put(workspace.origin, step.path, old, wanted, step.before.mode, _temp(journal, number))
        else:
            take_away(workspace.origin, step.path, workspace.project_root)
    remove_tree(plan_folder(workspace))


def _is_before(step: Step, now: Found) -> bool:
    """Whether a path is as it was; a folder may have been emptied by the steps before."""
    return now == step.before or (step.before.kind == "folder" and now.kind == "absent")


def _begun(workspace: Workspace) -> int:
    """The number of the last step that was begun, or -1; a line that a crash cut short was not begun."""
    try:
        lines = (plan_folder(workspace) / "progress").read_text("ascii").split("\n")[:-1]
    except FileNotFoundError:
        return -1
    return int(lines[-1]) if lines else -1


def _temp(journal: Journal, number: int) -> str:
    return f".butler-{journal.token}-{number}"


def sync(path: Path) -> None:
    """Make a file's content survive a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_durably(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, "utf-8")
    sync(fresh)
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
