"""Puts approved work into the person's tree: whole or not at all, once, and only what was approved (D6)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.changes import take_work
from butler.maids.worktree.journal import Journal, execute, read_applied, read_journal, write_journal
from butler.maids.worktree.merging import plan
from butler.maids.worktree.workspace import Applied, Conflict, Workspace

_TRIES = 3
_LOCK_TRIES, _LOCK_PAUSE = 600, 0.1


async def apply(workspace: Workspace, sha256: str) -> Applied | Conflict:
    """Merge the maid's work into the person's files as they are now, if it still is the one with that SHA-256 (D6).

    Index, commits, branches and stash stay untouched: the changes are there as edits. Where any file can't be merged,
    no file is changed. After a crash in the middle the same call finishes it; after success it says so again.

    Raises:
        ButlerError: ``not_found``: tree or project is gone; ``thread_busy``: another work is being applied;
            ``forbidden``: a link to elsewhere is in the project's place.
    """
    async with _lock(workspace.folder.parent / "apply.lock"):
        done = await asyncio.to_thread(read_applied, workspace)
        if done is None:
            begun = await asyncio.to_thread(read_journal, workspace)
            finished = await _whole(execute, workspace, begun) if begun else None
            done = (begun.sha256, finished) if begun and finished else None
        if done is not None:
            return done[1] if done[0] == sha256 else _changed("Another version of this work has been applied already.")
        if not await asyncio.to_thread(workspace.origin.is_dir):
            raise ButlerError("not_found", f"The project {workspace.origin} is gone. Put it back and approve again.")
        if await asyncio.to_thread(os.path.realpath, workspace.origin) != str(workspace.origin):
            raise ButlerError("forbidden", f"A link to elsewhere is in the place of the project {workspace.origin}.")
        for _ in range(_TRIES):
            work = await take_work(workspace)
            if work.sha256 != sha256:
                return _changed("The maid's files are not the ones that were approved. Look at the new diff.")
            planned = await plan(workspace, work)
            if isinstance(planned, Conflict):
                return planned
            applied = await _whole(_write, workspace, planned)
            if applied is not None:
                return applied
    return Conflict("conflict", "The project's files kept changing meanwhile. Nothing was applied; approve it again.")


async def _whole(
    step: Callable[[Workspace, Journal], Applied | None], workspace: Workspace, journal: Journal
) -> Applied | None:
    """Wait for a step to end even when cancelled: the lock must not open while a thread still writes."""
    running = asyncio.ensure_future(asyncio.to_thread(step, workspace, journal))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _write(workspace: Workspace, journal: Journal) -> Applied | None:
    write_journal(workspace, journal)
    return execute(workspace, journal)


def _changed(detail: str) -> Conflict:
    return Conflict("changed", detail)


@contextlib.asynccontextmanager
async def _lock(path: Path) -> AsyncIterator[None]:
    """One apply at a time in a data folder, whichever process; the lock ends with the process."""
    handle = await asyncio.to_thread(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(_LOCK_TRIES):
            if _locked(handle):
                break
            await asyncio.sleep(_LOCK_PAUSE)
        else:
            raise ButlerError("thread_busy", "Another work is being applied. Try again in a minute.")
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
