"""Takes away what a maid's tree leaves: the tree, git's note of it, and folders of runs nobody knows (D6)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Collection
from pathlib import Path

import structlog

from butler.maids.worktree.workspace import Workspace

log = structlog.get_logger("butler.maids")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT = frozenset({"changes.patch", "applied.json", "workspace.json"})
"""Small files that stay in the state folder: what was done, and that it was applied."""
LATER_SECONDS = 30 * 24 * 3600.0


async def remove(workspace: Workspace, keep: bool) -> None:
    """Take away the tree and the repository's note of it; with `keep` the files stay as evidence.

    The patch and the note that it was applied stay in any case. May be called again, and when folders are missing.
    """
    await asyncio.to_thread(_remove, workspace, keep)


def _remove(workspace: Workspace, keep: bool) -> None:
    if workspace.common is not None:
        forget_worktree(workspace.common, workspace.top)
    if keep:
        pointer = workspace.top / ".git"
        if workspace.kind == "git" and pointer.is_file() and not pointer.is_symlink():
            pointer.unlink()
        return
    remove_tree(workspace.top)
    if workspace.state.is_dir():
        for entry in list(workspace.state.iterdir()):
            if entry.name not in _KEPT:
                remove_tree(entry)


async def leftovers(data_dir: Path, known: Collection[str]) -> tuple[str, ...]:
    """Remove every folder in ``DATA_DIR/maids`` whose run is not in `known`; give the names of those removed."""
    return await asyncio.to_thread(_leftovers, data_dir / "maids", frozenset(known))


def _leftovers(maids: Path, known: frozenset[str]) -> tuple[str, ...]:
    if not maids.is_dir():
        return ()
    swept = []
    for folder in sorted(maids.iterdir()):
        if folder.name in known or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            remove_folder(folder)
        except OSError as error:
            # One that can't be removed must not keep the others.
            log.warning("maid_folder_not_removed", folder=folder.name, error=str(error))
        else:
            swept.append(folder.name)
    return tuple(swept)


def remove_folder(folder: Path) -> None:
    """Remove the folder of a maid run with all its trees, and the repositories' notes of them.

    Where a repository is not there just now, what is needed to do so later stays for a month.
    """
    later = []
    for number, workspace in remembered(folder):
        if workspace.common is None:
            continue
        if workspace.common.is_dir():
            forget_worktree(workspace.common, workspace.top)
        elif time.time() - _note(folder, number).stat().st_mtime < LATER_SECONDS:
            later.append(number)
    if not later:
        remove_tree(folder)
        return
    for entry in list(folder.iterdir()):
        if entry.name not in {f"state-{number}" for number in later}:
            remove_tree(entry)
    for number in later:
        for entry in list(_note(folder, number).parent.iterdir()):
            if entry != _note(folder, number):
                remove_tree(entry)


def remembered(folder: Path) -> list[tuple[int, Workspace]]:
    """The trees of a run by the notes in its folder. A maid may have written one: only places in the folder count."""
    found = []
    root = folder.resolve()
    for note in sorted(folder.glob("state-*/workspace.json")):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # half-written: nothing was handed out yet
            workspace = Workspace.from_json(json.loads(note.read_text("utf-8")))
            number = int(note.parent.name.removeprefix("state-"))
            is_own = workspace.folder == root and workspace.top == root / f"tree-{number}"
            if is_own and workspace.number == number and not note.parent.is_symlink():
                found.append((number, workspace))
    return found


def _note(folder: Path, number: int) -> Path:
    return folder / f"state-{number}" / "workspace.json"


def forget_worktree(common: Path, top: Path) -> None:
    """Remove the repository's note of a linked worktree, and only of that one; what ``git worktree remove`` does.

    Works without the tree, and when the maid has damaged the pointer in it.
    """
    notes = common / "worktrees"
    if not notes.is_dir():
        return
    for note in list(notes.iterdir()):
        pointer = note / "gitdir"
        if note.is_symlink() or not pointer.is_file():
            continue
        if pointer.read_bytes().removesuffix(b"\n") == os.fsencode(top / ".git"):
            remove_tree(note)
    with contextlib.suppress(OSError):  # other worktrees are there
        notes.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a file, link or folder whatever modes its folders have; links are never followed."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        # Closed folders, or more of them inside of each other than a path or the stack can hold.
        _flatten(path)
        path.rmdir()


def _flatten(root: Path) -> None:
    """Empty a folder without going deeper than one step: what lies below is brought up before it is emptied."""
    root.chmod(0o700)
    top = os.open(root, _FOLDER)
    fresh = f"{secrets.token_hex(8)}-"
    count = 0
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(top, name):
                    os.unlink(name, dir_fd=top)
                    continue
                os.chmod(name, 0o700, dir_fd=top)
                inner = os.open(name, _FOLDER, dir_fd=top)
                try:
                    for below in os.listdir(inner):
                        if _is_folder(inner, below):
                            os.chmod(below, 0o700, dir_fd=inner)
                            count += 1
                            os.rename(below, f"{fresh}{count}", src_dir_fd=inner, dst_dir_fd=top)
                        else:
                            os.unlink(below, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _is_folder(place: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
