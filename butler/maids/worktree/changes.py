"""What a maid has changed, told by git from the files themselves never from the maid's words (D6, D9)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import posixpath
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from butler.errors import ButlerError
from butler.maids.contract import Change, Diff
from butler.maids.worktree.cutting import cut_file
from butler.maids.worktree.git import Git, split_z
from butler.maids.worktree.ignoring import places_of, refuse_traps
from butler.maids.worktree.preparing import base_index
from butler.maids.worktree.proving import prove_trees
from butler.maids.worktree.removing import remove_tree
from butler.maids.worktree.sealing import require_seal
from butler.maids.worktree.store import Snapshot, copy_index, snapshot
from butler.maids.worktree.workspace import Workspace

TEXT_BYTES = 200 * 1024
TREE_SECONDS = 120.0
"""For one git command in a maid's tree."""
_PATCH = (
    "diff-tree", "-r", "--no-commit-id", "-p", "--find-renames", "--full-index", "--no-color", "--no-ext-diff",
    "--no-textconv", "--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all",
)  # fmt: skip
_STATUS: dict[str, Literal["added", "modified", "deleted", "renamed", "type_changed"]] = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type_changed",
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """The tree object of the maid's files as they are now, and the SHA-256 of the whole patch to it."""

    snapshot: Snapshot
    sha256: str
    patch: Path


async def diff(workspace: Workspace, *, text_bytes: int = TEXT_BYTES) -> Diff:
    """Everything that differs from the base: edits, new files, commits, renames, binary files, modes (D6).

    Paths are relative to `workspace.tree`; changes of the repository outside of it start with ``../`` and are named
    in the notes, as are files that are not part of the change (ignored ones, submodules). The same files give the
    same bytes. The patch is a file in the workspace's state folder and stays there when the tree is removed.

    Raises:
        ButlerError: ``not_found``: the tree is gone; ``too_large``: more than can be taken; ``invalid_request``:
            what git can't read; ``forbidden``: Butler's own files beside the tree were changed.
    """
    work = await take_work(workspace)
    store = Git(workspace.git_dir, workspace.git_dir)
    whole = workspace.state / f"text-{secrets.token_hex(4)}"
    await store.run(*_PATCH, workspace.base, work.snapshot.tree, into=whole)
    text, is_cut = await asyncio.to_thread(cut_file, whole, text_bytes)
    await asyncio.to_thread(whole.unlink)
    raw = split_z(await store.run(*_listing("--raw"), workspace.base, work.snapshot.tree))
    numbers = split_z(await store.run(*_listing("--numstat"), workspace.base, work.snapshot.tree))
    changes = tuple(_changes(raw, _lines(numbers), workspace.prefix))
    left_out = tuple(_from(workspace.prefix, path) for path in work.snapshot.left_out)
    return Diff(work.sha256, text, changes, work.patch, is_cut, _notes(work.snapshot, changes), left_out)


async def take_work(workspace: Workspace) -> Work:
    """Take a snapshot of the maid's tree and write the patch that leads to it."""
    if not await asyncio.to_thread(_is_there, workspace):
        raise ButlerError("not_found", f"The maid's tree {workspace.top} is gone. Delegate the task again.")
    await asyncio.to_thread(require_seal, workspace)
    scratch = workspace.state / f"work-{secrets.token_hex(4)}"  # two may look at once
    await asyncio.to_thread(scratch.mkdir)
    try:
        index, fresh = scratch / "index", scratch / "patch"
        await asyncio.to_thread(copy_index, base_index(workspace), index)
        await asyncio.to_thread(refuse_traps, workspace.top)
        wanted = await asyncio.to_thread(places_of, workspace.top, workspace.prefix, workspace.wanted)
        tree = Git(workspace.top, workspace.git_dir, index, within=TREE_SECONDS)
        taken = await snapshot(tree, follow_nested=True, wanted=wanted)
        store = Git(workspace.git_dir, workspace.git_dir)
        await prove_trees(store, workspace.base, taken.tree, scratch)
        await store.run(*_PATCH, "--binary", workspace.base, taken.tree, into=fresh)
        sha256 = await asyncio.to_thread(file_sha256, fresh)
        patch = workspace.state / "changes.patch"
        await asyncio.to_thread(os.replace, fresh, patch)
    finally:
        await asyncio.to_thread(remove_tree, scratch)
    return Work(taken, sha256, patch)


def _is_there(workspace: Workspace) -> bool:
    """Whether the tree is a folder; a maid may have put a link to somewhere else in its place."""
    return workspace.top.is_dir() and not workspace.top.is_symlink() and workspace.git_dir.is_dir()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shown(name: str) -> str:
    """A path as text that any database and page can hold."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _listing(form: str) -> tuple[str, ...]:
    return (
        "diff-tree",
        "-r",
        "-z",
        "--no-commit-id",
        "--find-renames",
        "--full-index",
        "--ignore-submodules=all",
        form,
    )


def _lines(fields: list[str]) -> dict[str, tuple[int, int, bool]]:
    """Added and removed lines and whether it is binary, by new path."""
    found = {}
    rest = iter(fields)
    for field in rest:
        added, removed, path = field.split("\t", 2)
        if not path:
            next(rest)
            path = next(rest)
        binary = added == "-"
        found[path] = (0, 0, True) if binary else (int(added), int(removed), False)
    return found


def _changes(fields: list[str], lines: dict[str, tuple[int, int, bool]], prefix: str) -> Iterator[Change]:
    rest = iter(fields)
    for field in rest:
        letter = field.rsplit(" ", 1)[1][0]
        path = next(rest)
        old = None
        if letter == "R":
            old, path = path, next(rest)
        added, removed, binary = lines.get(path, (0, 0, False))
        yield Change(
            path=_from(prefix, path),
            status=_STATUS[letter],
            old_path=_from(prefix, old) if old is not None else None,
            binary=binary,
            added_lines=added,
            removed_lines=removed,
        )


def _from(prefix: str, path: str) -> str:
    return shown(posixpath.relpath(path, prefix) if prefix and not path.startswith(prefix) else path[len(prefix) :])


def _notes(taken: Snapshot, changes: tuple[Change, ...]) -> tuple[str, ...]:
    outside = [change.path for change in changes if change.path.startswith("../")]
    if not outside:
        return taken.notes
    some = ", ".join(outside[:10]) + (" …" if len(outside) > 10 else "")
    return (f"{len(outside)} changes lie outside of the project's folder: {some}.", *taken.notes)
