"""Evaluating a maid: a house that is thrown away, the usual supervisor in it, one task after another (D13).

Nothing of it is in the person's own ledger, threads or projects; only the result is kept, by whoever asked.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from butler.approvals.judge import Judge
from butler.approvals.policy import Policy
from butler.errors import ButlerError
from butler.maids.evaluation.answering import Answering
from butler.maids.evaluation.scoring import Evaluation, TrialResult, evaluated
from butler.maids.evaluation.suite import Suite, SuiteTask
from butler.maids.evaluation.trial import free_port, make_project, try_out
from butler.maids.facts import health_of
from butler.people import Actor, Principal
from butler.redact import Redactor
from butler.storage.database import Database
from butler.storage.migrate import migrate
from butler.storage.users import add_user
from butler.tools.registry import ToolRegistry
from config.maid_types import MaidDefinition, MaidRegistryFile, VerificationProfile
from config.policy_file import PolicyFile
from service.delegation import desk_of, maid_tools, supervisor_of
from service.maidproxy import provider_access

Heard = Callable[[TrialResult], None]


def ready(maid_id: str, registry: MaidRegistryFile, environ: Mapping[str, str]) -> MaidDefinition:
    """The maid, if it could be tried now.

    Raises:
        ButlerError: ``not_found`` for an unknown one, ``invalid_request`` for one that could not start.
    """
    maid = registry.maid(maid_id)
    if maid is None:
        known = ", ".join(one.maid_id for one in registry.maids) or "none"
        raise ButlerError("not_found", f"There is no maid {maid_id!r} in maid_registry.yml; there are: {known}.")
    health = health_of(maid, environ)
    if not health.ok:
        raise ButlerError("invalid_request", f"The maid {maid_id} can't be tried: {health.detail}.")
    return maid


async def evaluate(
    maid: MaidDefinition, suite: Suite, *, environ: Mapping[str, str], redactor: Redactor,
    heard: Heard = lambda result: None,
) -> Evaluation:  # fmt: skip
    """Try a maid on every task of a suite.

    Its own checks and verdicts are left out: each task has its checks, and what would be asked is answered by the
    suite's rules.

    Args:
        heard: told of each result as it comes.

    Raises:
        ButlerError: ``model_unavailable`` when its provider fails; nothing can be said of the maid then.
    """
    tried = replace(
        maid, verification_profile=VerificationProfile(), permission="approve", launch_verdict="allow", enabled=True
    )
    trials: list[TrialResult] = []
    with tempfile.TemporaryDirectory(prefix="butler-evaluation-", ignore_cleanup_errors=True) as folder:
        home = await asyncio.to_thread(Path(folder).resolve)
        await asyncio.to_thread(migrate, home / "butler.db")
        database = Database(home / "butler.db", redactor=redactor)
        try:
            person = (await database.write(partial(add_user, name="suite", role="admin", by=Actor("suite", "shell"))))[
                0
            ]
            for number, task in enumerate(suite.tasks, 1):
                house = _House(home / f"{number:02}-{task.name}", database, person, environ, redactor)
                trials.append(await house.trial(task, tried))
                heard(trials[-1])
        finally:
            await asyncio.to_thread(database.close)
    return evaluated(maid.maid_id, trials, whole=suite.is_whole)


@dataclass(frozen=True)
class _House:
    """What one trial happens in."""

    place: Path
    database: Database
    person: Principal
    environ: Mapping[str, str]
    redactor: Redactor

    async def trial(self, task: SuiteTask, maid: MaidDefinition) -> TrialResult:
        """Have the maid do the task in a project of its own."""
        project, outside = self.place / "project", self.place / "outside"
        for path in (project, outside):
            await asyncio.to_thread(path.mkdir, parents=True)
        task = task.placed(free_port(), outside)
        await make_project(task, project)
        registry = MaidRegistryFile((maid,), allowed_commands=task.commands(), project_roots=(project,))
        desk = desk_of(registry, (), self.place, self.environ)
        tools = ToolRegistry([maid_tools(desk)])
        judge = Judge(Policy(PolicyFile()), tools, self.redactor)
        supervisor = supervisor_of(
            desk, database=self.database, judge=judge, tools=tools, redactor=self.redactor,
            data_dir=self.place / "data", environ=self.environ, access=provider_access,
        )  # fmt: skip
        answering = Answering(self.database, judge, self.person)
        return await try_out(task, maid.maid_id, project, outside, supervisor, answering)
