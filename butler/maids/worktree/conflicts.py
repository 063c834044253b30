"""Keeps both sides of what could not be merged, as files and as text with markers (D6)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from butler.maids.worktree.changes import shown
from butler.maids.worktree.git import Git
from butler.maids.worktree.removing import remove_tree
from butler.maids.worktree.workspace import ConflictFile, Workspace

MARKED_BYTES = 64 * 1024


@dataclass(frozen=True)
class Side:
    """A file as git stores it: octal mode and object id."""

    mode: str
    blob: str


@dataclass(frozen=True)
class Clash:
    """A path that can't be merged, and why; `marked` is the text with conflict markers."""

    path: str
    reason: str
    base: Side | None
    ours: Side | None
    theirs: Side | None
    marked: bytes | None = None


async def keep_sides(workspace: Workspace, store: Git, clashes: list[Clash]) -> tuple[ConflictFile, ...]:
    """Write the sides of each conflict into the state folder; a link's side is its target as text."""
    folder = workspace.state / "conflicts"
    await asyncio.to_thread(remove_tree, folder)
    kept = []
    for number, clash in enumerate(sorted(clashes, key=lambda item: item.path)):
        place = folder / str(number)
        await asyncio.to_thread(place.mkdir, parents=True)
        paths: dict[str, Path | None] = {}
        for name, side in (("base", clash.base), ("ours", clash.ours), ("theirs", clash.theirs)):
            paths[name] = place / name if side else None
            if side is not None:
                await store.run("cat-file", "blob", side.blob, into=place / name)
        merged = place / "merged" if clash.marked is not None else None
        if merged is not None and clash.marked is not None:
            await asyncio.to_thread(merged.write_bytes, clash.marked)
        text = clash.marked[:MARKED_BYTES].decode("utf-8", "replace") if clash.marked is not None else None
        kept.append(
            ConflictFile(shown(clash.path), clash.reason, paths["base"], paths["ours"], paths["theirs"], merged, text)
        )
    return tuple(kept)
