"""The supervisor of delegated work: what each step of a task does, and what it leaves in the database (D1-D10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import structlog
from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.errors import ButlerError
from butler.maids import store
from butler.maids.applying import being_applied
from butler.maids.attempting import Attempting
from butler.maids.checking import Checking
from butler.maids.cleaning import Cleaning
from butler.maids.closing import withdraw_requests
from butler.maids.events import Emit, tell
from butler.maids.means import Means
from butler.maids.permissions import Waking, is_request_of
from butler.maids.progress import Bounds, Next, next_step
from butler.maids.reporting import told
from butler.maids.reviewing import Reviewing
from butler.maids.store import Attempt, MaidRun
from butler.maids.verify.profile import merged
from butler.maids.worktree import Workspace, mend, prepare
from butler.maids.worktree.sealing import sealed
from butler.people import Principal
from butler.types import Json, ToolResult

log = structlog.get_logger("butler.maids")
NO_MAIDS = "there is no maid in maid_registry.yml that is enabled."


class Supervisor(Cleaning):
    """Carries a task from its call to its one outcome. Each method may be called again after a crash."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._attempting = Attempting(means)
        self._checking = Checking(means)
        self._reviewing = Reviewing(means)

    # The call.

    def meant(self, args: Json) -> Json:
        """A call with the folder in place of a project's name; a name that there is not is told when it runs."""
        try:
            return self.means.desk.meant(args)
        except ButlerError as error:
            log.info("delegate_not_possible", code=error.code, detail=error.detail)
            return args

    async def foresee(self, args: Json) -> None:
        """Look where a call would go before its verdict is asked for; what is wrong with it is told when it runs."""
        try:
            await self.means.desk.foresee(args)
        except ButlerError as error:
            log.info("delegate_not_possible", code=error.code, detail=error.detail)

    def goal_of(self, args: Json) -> str:
        """Where a foreseen call would go, in a sentence for whoever is asked about it."""
        return self.means.redactor.text(self.means.desk.goal_of(args))

    async def foresee_call(self, action_id: str) -> None:
        """The same for a call that is in the ledger, before it is asked about again."""
        action = await self._database.read(partial(ledger.get, action_id=action_id))
        if action is not None and action.execution in ("none", "unknown"):
            await self.foresee(action.run_args if action.run_args is not None else action.args)

    async def open(self, action: Action, person: Principal, emit: Emit) -> MaidRun | None:
        """The task of a begun call; None when it can't be carried out, which the ledger then says."""
        args = action.run_args if action.run_args is not None else action.args
        if not any(maid.enabled for maid in self.means.desk.maids):
            await self._database.write(partial(_refused, action=action, why=NO_MAIDS, status="not_delegated"))
            return None
        try:
            read = self.means.desk.read(args)
        except ButlerError as error:
            await self._database.write(partial(_refused, action=action, why=error.detail, status="failed"))
            return None
        opened = partial(
            store.of_call, task=read, person=person, thread_id=action.thread_id, run_id=action.run_id,
            action_id=action.action_id, call_id=action.call_id,
        )  # fmt: skip
        try:
            return await self._database.write(opened)
        except ButlerError as error:
            await self._database.write(partial(_refused, action=action, why=error.detail, status="failed"))
            return None

    async def recorded(self, action: Action) -> Action:
        """The action as it is now."""
        return await self._database.read(partial(ledger.get, action_id=action.action_id)) or action

    # The way.

    async def next(self, maid_run_id: str) -> Next:
        """Where the task goes on."""
        run, attempts = await self._task(maid_run_id)
        return next_step(run, attempts, self.bounds(run))

    def bounds(self, run: MaidRun) -> Bounds:
        """How often this task is tried."""
        return self.means.bounds(run)

    async def _task(self, maid_run_id: str) -> tuple[MaidRun, list[Attempt]]:
        return await self._database.read(partial(task_of, maid_run_id=maid_run_id))

    async def route(self, maid_run_id: str, emit: Emit) -> None:
        """Choose the maid; a task that is not delegated is over with the reason."""
        run, _ = await self._task(maid_run_id)
        if run.is_over or run.maid_id is not None:
            return
        action = await self._database.read(partial(ledger.get, action_id=run.action_id or ""))
        args = (action.run_args if action.run_args is not None else action.args) if action else {}
        try:
            routed = await self.means.desk.foresee(args)
        except ButlerError as error:
            await self._finish(run, "failed", error.detail)
            return
        if routed.maid is None:
            await self._database.write(partial(_not_delegated, run=run, route=routed.document(), why=routed.reason))
            tell(emit, run, None, "not_delegated", routed.reason)
            return
        policy = routed.route.retry_policy if routed.route is not None else None
        retry = None if policy is None else {
            "max_attempts": policy.max_attempts,
            "retry_on": list(policy.retry_on) if policy.retry_on is not None else None,
        }  # fmt: skip
        await self._database.write(
            partial(store.change, maid_run_id=maid_run_id, maid_id=routed.maid.maid_id, route=routed.document(),
                    retry=retry)
        )  # fmt: skip
        tell(emit, run, None, "routed", routed.reason, maid_id=routed.maid.maid_id)

    async def prepare(self, maid_run_id: str, emit: Emit) -> None:
        """Make the tree of the task; one that a crash interrupted stays as evidence, and a new one is made."""
        run, attempts = await self._task(maid_run_id)
        if run.is_over or run.workspace is not None:
            return
        number = 1 + sum("workspace" in one.evidence for one in attempts)
        try:
            uncommitted = self.means.maid_of(run).include_uncommitted
            made = await prepare(
                Path(run.project_root), self.means.folder_of(run), include_uncommitted=uncommitted, number=number
            )
            made = await asyncio.to_thread(sealed, replace(made, wanted=self._wanted(run)))
        except (ButlerError, OSError) as error:
            await self._finish(run, "failed", f"No tree could be made for the maid: {error}")
            return
        await self._database.write(partial(store.change, maid_run_id=maid_run_id, workspace=made.to_json()))
        tell(emit, run, None, "prepared", f"A {made.kind} of {run.project_root}")

    def _wanted(self, run: MaidRun) -> tuple[str, ...]:
        """The files that checks name; what they see has to be in the change."""
        profile = merged(self.means.maid_of(run).verification_profile, self.means.desk.task(run).expect)
        named = [check.path for check in profile.file_checks if check.exists]
        return tuple(dict.fromkeys([*named, *(one.path for one in profile.exact_output if one.path is not None)]))

    async def attempt(self, maid_run_id: str, person: Principal, emit: Emit, waking: Waking) -> None:
        """One execution of the maid, if one is due."""
        run, attempts = await self._task(maid_run_id)
        last = attempts[-1] if attempts else None
        if last is not None and last.status == "running" and last.finished_at is None:
            await self.interrupt([run.run_id])
            return
        if next_step(run, attempts, self.bounds(run)).step not in ("attempt", "permission"):
            return
        if await mend(Workspace.from_json(run.workspace or {})):
            await self._attempting.run(run, attempts, person, emit, waking)
        else:
            # The maid before has removed its own tree: a fresh one comes first.
            await self._database.write(partial(_set_aside, run=run, last=last))

    async def verify(self, maid_run_id: str, emit: Emit) -> None:
        """Look at what an attempt has done, and settle it."""
        run, attempts = await self._task(maid_run_id)
        if not run.is_over and attempts and attempts[-1].status == "running" and attempts[-1].finished_at:
            await self._checking.settle(run, attempts, emit)

    async def unanswered(self, maid_run_id: str) -> Action | None:
        """The oldest permission request of the task that waits for a person."""
        run, _ = await self._task(maid_run_id)
        actions = await self._database.read(partial(ledger.of_run, run_id=run.run_id))
        return next((one for one in actions if one.status == "pending" and is_request_of(one, run)), None)

    async def review(self, maid_run_id: str, person: Principal, emit: Emit) -> Action | None:
        """The question about the diff, asked once; None when there is nothing to ask."""
        run, attempts = await self._task(maid_run_id)
        return None if run.is_over else await self._reviewing.question(run, attempts, person, emit)

    async def reviewed(self, maid_run_id: str, action: Action | None, emit: Emit) -> Next:
        """What the answer leads to."""
        run, attempts = await self._task(maid_run_id)
        if not run.is_over and await self._reviewing.answered(run, attempts, action, emit):
            return Next("apply")
        return await self.next(maid_run_id)

    async def apply(self, maid_run_id: str, emit: Emit) -> Next:
        """Put the approved diff into the project, once; a conflict becomes another question."""
        run, attempts = await self._task(maid_run_id)
        if not run.is_over:
            await self._reviewing.apply(run, attempts, emit)
        return await self.next(maid_run_id)

    # The end.

    async def report(self, maid_run_id: str, action_id: str, why: str, emit: Emit) -> Action:
        """Give the task its outcome if it has none, and the call its result; then clean up."""

        def transaction(connection: Connection) -> tuple[MaidRun, Action]:
            run, attempts = task_of(connection, maid_run_id)
            if not run.is_over:
                run = store.finish(connection, maid_run_id, "failed", why or "It came to no end.") or run
            action = ledger.get(connection, action_id)
            if action is None:
                raise LookupError(action_id)
            withdraw_requests(connection, run)
            if action.execution == "started":
                text = self.means.redactor.text(told(run, attempts))
                result = ToolResult(text, is_error=run.status in ("failed", "cancelled"))
                action = ledger.finish(connection, action_id, action.attempts, result) or action
            return run, action

        run, action = await self._database.write(transaction)
        tell(emit, run, None, run.status, run.reason)
        await self._keep_record(run)
        await self.clean(run)
        return action

    async def _finish(self, run: MaidRun, status: Any, reason: str) -> None:
        reason = self.means.redactor.text(reason)
        await self._database.write(partial(store.finish, maid_run_id=run.maid_run_id, status=status, reason=reason))

    async def recover(self) -> None:
        """At the start: attempts of the dead process are over, and what was being applied is applied to its end."""
        await self.interrupt(None)
        for run in await self._database.read(store.unfinished):
            attempts = await self._database.read(partial(store.attempts_of, maid_run_id=run.maid_run_id))
            for attempt in attempts[-1:]:
                await self.means.sweep(f"{attempt.attempt_id}-check")
        for run in await self._database.read(being_applied):
            attempts = await self._database.read(partial(store.attempts_of, maid_run_id=run.maid_run_id))
            await self._reviewing.go_on_applying(run, attempts)

    async def interrupt(self, run_ids: list[str] | None) -> list[Attempt]:
        """What a dead process left of attempts: its processes are ended, the tree is kept, the count goes on (D7)."""

        def transaction(connection: Connection) -> list[Attempt]:
            ended = store.interrupt_attempts(connection, run_ids)
            for attempt in ended:
                run = store.get(connection, attempt.maid_run_id)
                if run is not None and any(
                    one.status == "pending" and is_request_of(one, run) for one in ledger.of_run(connection, run.run_id)
                ):
                    store.unspend(connection, attempt)  # it waited for a person, which is not the maid's fault (D10)
                store.set_aside(connection, attempt)
            return ended

        ended = await self._database.write(transaction)
        for attempt in ended:
            left = await self.means.sweep(attempt.attempt_id)
            log.warning("attempt_interrupted", attempt_id=attempt.attempt_id, number=attempt.number, processes=left)
        return ended


def task_of(connection: Connection, maid_run_id: str) -> tuple[MaidRun, list[Attempt]]:
    """A task with its attempts. Raises LookupError when it is gone."""
    run = store.get(connection, maid_run_id)
    if run is None:
        raise LookupError(f"the maid run {maid_run_id} is gone")
    return run, store.attempts_of(connection, maid_run_id)


def _set_aside(connection: Connection, run: MaidRun, last: Attempt | None) -> None:
    if last is not None:
        store.set_aside(connection, last)
    else:
        store.change(connection, run.maid_run_id, workspace=None, diff=None)


def _refused(connection: Connection, action: Action, why: str, status: Literal["failed", "not_delegated"]) -> None:
    result = ToolResult(f"Not delegated: {why}", is_error=status == "failed")
    ledger.finish(connection, action.action_id, action.attempts, result)
    for run in store.of_run(connection, action.run_id):
        if run.action_id is None:
            store.finish(connection, run.maid_run_id, status, why)


def _not_delegated(connection: Connection, run: MaidRun, route: Json, why: str) -> None:
    store.change(connection, run.maid_run_id, route=route)
    store.finish(connection, run.maid_run_id, "not_delegated", why)
