"""What a supervisor works with: the house's own parts, and those that launch, watch and check maids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from butler.approvals.judge import Judge
from butler.errors import ButlerError
from butler.maids.contract import Launcher
from butler.maids.desk import Desk
from butler.maids.failures import kind_of
from butler.maids.launching.processes import sweep
from butler.maids.permissions import PermissionBroker
from butler.maids.progress import Bounds
from butler.maids.provider import ProviderAccessFactory
from butler.maids.store import MaidRun
from butler.redact import Redactor
from butler.storage.database import Database
from butler.tools.registry import ToolRegistry
from config.maid_types import MaidDefinition


@dataclass(frozen=True)
class Means:
    """The parts of one house.

    Args:
        folder: ``DATA_DIR/maids``; each task has a folder in it.
        environ: the server's variables, from which a maid gets those that its row names.
        launcher_for: the launcher of a maid's kind.
        access: opens the way to a model provider; None where no maid may have one.
        guarded: whether only runs that the service has marked running may ask or begin anything.
        hidden: files and folders that a sandboxed maid, and what it wrote, can't see.
        at_once: how many maids run at the same time; further ones wait for their turn.
        backoff: seconds before the first repeat after a provider's trouble; doubled each time, 60 at most.
    """

    database: Database
    judge: Judge
    tools: ToolRegistry
    redactor: Redactor
    desk: Desk
    folder: Path
    environ: Mapping[str, str]
    launcher_for: Callable[[MaidDefinition], Launcher]
    access: ProviderAccessFactory | None = None
    guarded: bool = True
    hidden: tuple[Path, ...] = ()
    at_once: int = 4
    backoff: float = 1.0
    broker: PermissionBroker = field(init=False)

    def __post_init__(self) -> None:
        broker = PermissionBroker(self.database, self.judge, self.tools, self.redactor, guarded=self.guarded)
        object.__setattr__(self, "broker", broker)

    def folder_of(self, run: MaidRun) -> Path:
        """Where everything of a task lives."""
        return self.folder / run.maid_run_id

    def environ_of(self, run: MaidRun, maid: MaidDefinition) -> Mapping[str, str]:
        """The server's variables, over which its project's win that the maid's row names (D12)."""
        names = {*maid.env, maid.endpoint.api_key_env if maid.endpoint is not None else None}
        own = self.desk.ground(Path(run.project_root)).variables
        return {**self.environ, **{name: value for name, value in own.items() if name in names}}

    def attempt_folder(self, run: MaidRun, number: int) -> Path:
        """Home, temp and prompt of one attempt, outside of its tree."""
        return self.folder_of(run) / f"attempt-{number}"

    def maid_of(self, run: MaidRun) -> MaidDefinition:
        """The maid of a task. Raises ButlerError when it is not in the registry any more."""
        maid = self.desk.ground(Path(run.project_root)).registry.maid(run.maid_id or "")
        if maid is None or not maid.enabled:
            raise ButlerError("not_found", f"The maid {run.maid_id!r} is not in maid_registry.yml any more.")
        return maid

    def bounds(self, run: MaidRun) -> Bounds:
        """How often a task is tried, by its route."""
        retry = run.retry or {}
        wanted = retry.get("retry_on")
        return Bounds(
            max_attempts=int(retry.get("max_attempts", 3)),
            may_retry=lambda kind: kind_of(kind).retryable and (wanted is None or kind in wanted),
        )

    async def sweep(self, mark: str) -> int:
        """End every process that carries a mark; give how many there were."""
        return await asyncio.to_thread(partial(sweep, mark))
