"""A brain with one maid whose launcher is a function of the test; worktrees, checks and ledger are real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from butler.maids import store
from butler.maids.contract import Finished, Launch, PermissionRequest, Watcher
from butler.maids.desk import Desk
from butler.maids.means import Means
from butler.maids.store import Attempt, MaidRun
from butler.maids.supervisor import Supervisor
from butler.redact import Redactor
from butler.storage.database import Database
from butler.tools.delegating import delegating_toolset
from config.maid_types import (
    FileCheck,
    Limits,
    MaidDefinition,
    MaidRegistryFile,
    RetryPolicy,
    RouteDefinition,
    VerificationProfile,
)
from config.policy_file import RuleDefinition
from tests.support.headless import Brain, Line, open_brain
from tests.support.parts import add_run
from tests.support.projects import make_project

Act = Callable[[Launch, Watcher], Awaitable[Finished | None]]
MAID = MaidDefinition(
    maid_id="m", kind="script", label="Maid", provider="local", model=None, role="work", command_template=("true",),
    launch_verdict="allow", limits=Limits(permission_wait=0.05),
    verification_profile=VerificationProfile(file_checks=(FileCheck("out.txt", contains="done"),)),
)  # fmt: skip


class Fake:
    """Runs the test's function as the maid."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.acts = list(acts)
        self.launches: list[Launch] = []

    async def run(self, launch: Launch, watcher: Watcher) -> Finished:
        """One attempt; the last function serves all that follow."""
        act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        self.launches.append(launch)
        return await act(launch, watcher) or Finished(0)


def wants(launch: Launch, command: str = "make it") -> PermissionRequest:
    """A request for a command."""
    return PermissionRequest("call-1", "execute", f"Run {command}", command=command)


def asking(launch_done: str = "done\n") -> Act:
    """A maid that asks for leave, and does the work only with it."""

    async def act(launch: Launch, watcher: Watcher) -> Finished:
        answer = await watcher.permission(wants(launch))
        if answer == "cancel":
            return Finished(None, awaits_permission=True)
        if answer == "allow":
            (launch.tree / "out.txt").write_text(launch_done)
        return Finished(0, claim=f"was told {answer}")

    return act


async def works(launch: Launch, watcher: Watcher) -> Finished:
    """A maid that just does it."""
    (launch.tree / "out.txt").write_text("done\n")
    return Finished(0, claim="I did it")


class MaidBrain:
    """A brain, its maid, and the project that it works on."""

    def __init__(self, brain: Brain, fake: Fake, project: Path, desk: Desk) -> None:
        self.brain = brain
        self.desk = desk
        self.fake = fake
        self.project = project
        self.database: Database = brain.database

    async def tasks(self) -> list[MaidRun]:
        """The tasks of the first run."""
        return await self.database.read(lambda connection: store.of_run(connection, "run-1"))

    async def attempts(self) -> list[Attempt]:
        """The attempts of the first task."""
        [task] = await self.tasks()
        return await self.database.read(lambda connection: store.attempts_of(connection, task.maid_run_id))


@asynccontextmanager
async def maid_brain(
    home: Path, acts: Sequence[Act], *lines: Line, rules: Sequence[RuleDefinition] = (), on_disk: bool = False,
    retry: RetryPolicy | None = None, allowed: tuple[tuple[str, ...], ...] = (), at_once: int = 4, **maid: Any,
) -> AsyncIterator[MaidBrain]:  # fmt: skip
    """Open it over the files in `home`; the first run's row is there already."""
    project = home / "project"
    if not project.exists():
        make_project(project, {"readme.txt": "hello\n"})
    registry = MaidRegistryFile(
        maids=(replace(MAID, **maid),), allowed_commands=allowed, project_roots=(project.resolve(),)
    )
    desk = Desk(registry, (RouteDefinition("work", "m", retry_policy=retry),), home)
    fake = Fake(acts)

    def supervisor(database: Any, judge: Any, tools: Any) -> Supervisor:
        database.write_now(lambda connection: add_run(connection, "run-1", "thread"))
        return Supervisor(
            Means(
                database=database, judge=judge, tools=tools, redactor=Redactor(["secret-value"]), desk=desk,
                folder=home / "data" / "maids", environ={"PATH": "/usr/bin:/bin"}, launcher_for=lambda _: fake,
                guarded=False, backoff=0.01, at_once=at_once,
            )
        )  # fmt: skip

    specs = delegating_toolset(registry.maids, desk.verdict_for).specs
    async with open_brain(home, *lines, rules=rules, tools=specs, on_disk=on_disk, maids=supervisor) as brain:
        yield MaidBrain(brain, fake, project, desk)
