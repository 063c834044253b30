"""Whether another attempt can work in a tree, after one that may have damaged it (D6, D7)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from butler.maids.worktree.preparing import base_index
from butler.maids.worktree.removing import remove_tree
from butler.maids.worktree.sealing import is_sealed
from butler.maids.worktree.workspace import Workspace


async def mend(workspace: Workspace) -> bool:
    """Write the tree's pointer to its repository anew where a maid has damaged it.

    False where that does not help: the tree, or what Butler keeps beside it, is gone, and a fresh one is needed.
    """
    return await asyncio.to_thread(_mend, workspace)


def _mend(workspace: Workspace) -> bool:
    kept = workspace.git_dir.is_dir() and base_index(workspace).is_file()
    # A maid may have put a link to somewhere else in the place of its folder.
    if (
        not kept
        or not is_sealed(workspace)
        or not workspace.tree.is_dir()
        or os.path.realpath(workspace.tree) != str(workspace.tree)
    ):
        return False
    if workspace.common is None:
        return True
    note = _note_of(workspace.common, workspace.top)
    if note is None:
        return False
    pointer, wanted = workspace.top / ".git", b"gitdir: " + os.fsencode(note) + b"\n"
    if pointer.is_symlink() or not pointer.is_file() or pointer.read_bytes() != wanted:
        remove_tree(pointer)
        pointer.write_bytes(wanted)
    return True


def _note_of(common: Path, top: Path) -> Path | None:
    """The repository's note of a linked worktree."""
    for pointer in common.glob("worktrees/*/gitdir"):
        if pointer.is_file() and pointer.read_bytes().removesuffix(b"\n") == os.fsencode(top / ".git"):
            return pointer.parent
    return None
