"""What tasks that are over leave on disk is taken away, or kept where that is asked for (D6, D9)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import structlog

from butler.maids import store
from butler.maids.keeping import FOLDER, NotKept, forget_kept, keep_trees, trim_kept, wants_keeping
from butler.maids.means import Means
from butler.maids.sessionlogs import write_session_log
from butler.maids.store import MaidRun
from butler.maids.worktree import leftovers
from butler.maids.worktree.removing import remove_folder

log = structlog.get_logger("butler.maids")
DAY_SECONDS = 24 * 3600.0


class Cleaning:
    """The part of the supervisor that cleans up. Each method may be called again after a crash."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self._database = means.database

    async def clean(self, run: MaidRun) -> None:
        """Remove what a task that is over leaves on disk: its trees, homes and git's notes of them."""
        folder = self.means.folder_of(run)
        if not await asyncio.to_thread(folder.is_dir):
            return
        try:
            maid = self.means.desk.ground(Path(run.project_root)).registry.maid(run.maid_id or "")
            if maid is not None and wants_keeping(run, maid.keep_tree):
                await asyncio.to_thread(self._keep, run, folder)
            await asyncio.to_thread(remove_folder, folder)
        except Exception:
            # The next start looks for leftovers again; a turn does not fail of it.
            log.exception("maid_folder_not_removed", maid_run_id=run.maid_run_id)

    def _keep(self, run: MaidRun, folder: Path) -> None:
        try:
            keep_trees(folder, self.means.folder.parent, self.means.redactor)
            trim_kept(self.means.folder.parent)
        except (NotKept, OSError) as error:
            log.warning("maid_tree_not_kept", maid_run_id=run.maid_run_id, why=str(error))

    async def tidy(self, run_id: str) -> None:
        """Clean up after the tasks of a run that has ended; costs next to nothing where no task has a folder."""
        records = any(project.session_logs_dir for project in self.means.desk.projects)
        folders = await asyncio.to_thread(self._folders) if self.means.folder.is_dir() else []
        if not records and not folders:
            return
        for run in await self._database.read(partial(store.of_run, run_id=run_id)):
            if run.is_over:
                await self._keep_record(run)
                await self.clean(run)

    async def _keep_record(self, run: MaidRun) -> None:
        """Write what came of a task where its project wants it (D12)."""
        folder = self.means.desk.ground(Path(run.project_root)).session_logs_dir
        if folder is not None:
            attempts = await self._database.read(partial(store.attempts_of, maid_run_id=run.maid_run_id))
            await write_session_log(folder, run, attempts, self.means.redactor)

    def _folders(self) -> list[str]:
        return _folders_in(self.means.folder)

    async def forget(self, runs: Sequence[MaidRun]) -> None:
        """Clean up after tasks whose thread was deleted; nothing of them is kept."""
        for run in runs:
            await asyncio.to_thread(forget_kept, self.means.folder.parent, run.maid_run_id)
            folder = self.means.folder_of(run)
            try:
                await asyncio.to_thread(remove_folder, folder)
            except FileNotFoundError:
                continue
            except Exception:
                log.exception("maid_folder_not_removed", maid_run_id=run.maid_run_id)

    async def sweep_leftovers(self) -> None:
        """Remove folders of tasks that nobody goes on with, and kept trees of tasks that are gone."""
        data = self.means.folder.parent
        names = await asyncio.to_thread(self._folders)
        for run in await self._database.read(partial(store.known_of, ids=names)):
            if run.is_over:
                await self.clean(run)  # killed between its outcome and this: what is to be kept is kept
        known = [run.maid_run_id for run in await self._database.read(store.unfinished)]
        swept = await leftovers(data, known)
        if swept:
            log.info("maid_leftovers_removed", folders=len(swept))
        await self._trim()

    async def _trim(self) -> None:
        data = self.means.folder.parent
        kept = await asyncio.to_thread(_folders_in, data / FOLDER)
        if kept:
            runs = await self._database.read(partial(store.known_of, ids=kept))
            gone = await asyncio.to_thread(trim_kept, data, {run.maid_run_id for run in runs})
            log.info("kept_trees_trimmed", gone=len(gone))

    async def keep_tidy(self) -> None:
        """Sweep at the start, and look once a day for kept trees that are too old."""
        await self.sweep_leftovers()
        while True:
            await asyncio.sleep(DAY_SECONDS)
            await self._trim()


def _folders_in(place: Path) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
