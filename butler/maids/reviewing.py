"""The diff before a person: asked about as an action of `session_complete`, applied once on approval (D6, A8)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import structlog
from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.calls import Proposal
from butler.approvals.show import approval
from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.maids import store
from butler.maids.checking import diff_document
from butler.maids.contract import MaidRunStatus
from butler.maids.events import Emit, tell
from butler.maids.launching.processes import through
from butler.maids.leaks import leaks_of
from butler.maids.means import Means
from butler.maids.showing import SHORT, shown, title_of
from butler.maids.store import Attempt, MaidRun
from butler.maids.worktree import Applied, Conflict, Workspace, apply
from butler.maids.worktree import diff as take_diff
from butler.people import Principal
from butler.types import Json, ToolResult

log = structlog.get_logger("butler.maids")

SESSION_COMPLETE = "session_complete"
MOST_CONFLICTS = 20
MOST_SIDE = 4000
UNCHANGED = "Nothing had to be changed."
REFUSED = "Nothing was changed, since what the maid asked for was refused; the checks pass all the same."
REJECTED = "A person rejected the diff; nothing was applied."


class Reviewing:
    """Questions about diffs, their answers, and the applying."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._database = means.database

    async def question(self, run: MaidRun, attempts: Sequence[Attempt], person: Principal, emit: Emit) -> Action | None:
        """The action that asks about the diff as it is now, made at the first look; None without a diff."""
        if not run.diff or not run.diff["changes"]:
            return None
        known = await self._database.read(partial(_current, run=run))
        if known is not None:
            return known
        spec = self._means.tools.get(SESSION_COMPLETE)
        args = self._means.redactor.json(shown(run, attempts))
        if self._means.tools.validate(SESSION_COMPLETE, args):
            # Longer than any call may be; what a person approves is bound by the SHA-256 in any case.
            args = self._means.redactor.json(shown(run, attempts, SHORT))
        title = title_of(run, args)
        call = Proposal(_call_id(run), 0, SESSION_COMPLETE, args, title, spec.digest if spec else "")
        rule = partial(self._means.judge.on_proposal, thread_id=run.thread_id, person=person)
        [action] = await self._database.write(
            partial(ledger.propose, calls=[call], run_id=run.run_id, thread_id=run.thread_id, person=person, rule=rule,
                    guarded=self._means.guarded, via="maid")
        )  # fmt: skip
        number = attempts[-1].number if attempts else None
        tell(
            emit, run, number, "review", "The diff waits for approval." if action.status == "pending" else action.reason
        )
        if action.status == "pending":
            emit("approval", approval(action, self._means.tools, self._means.redactor))
        return action

    async def answered(self, run: MaidRun, attempts: Sequence[Attempt], action: Action | None, emit: Emit) -> bool:
        """Note what an answer means for the task; True when the diff is to be applied."""
        good = _good_end(attempts)
        if action is None and run.diff is None:
            await self._finish(run, "failed", "What the maid changed could not be taken, so nothing was applied.")
            return False
        if action is None:
            await self._finish(run, good, _unchanged(attempts) if good == "succeeded" else NOTHING_CHECKED)
            return False
        if action.status in ("allowed", "approved"):
            if action.execution in ("none", "started"):
                return True
            if action.execution == "done":
                await self._finish(run, good, "A person took the work as done; nothing was applied.")
            else:
                await self._finish(run, "failed", action.result or "The diff was not applied.")
            return False
        said = (action.decision or {}).get("reason") if action.status == "rejected" else None
        if said and said.strip() and not (run.diff or {}).get("conflict"):
            spent = sum(one.spends for one in attempts)
            more = max(run.extra_attempts, spent + 1 - self._means.bounds(run).max_attempts)
            feedback = self._means.redactor.text(said)
            await self._database.write(partial(store.next_review, run=run, feedback=feedback, extra_attempts=more))
            tell(emit, run, None, "feedback", feedback)
            return False
        status: MaidRunStatus = "cancelled" if action.status == "cancelled" else "failed"
        reasons = {"rejected": REJECTED + (f" Reason: {said}" if said else "")}
        await self._finish(run, status, reasons.get(action.status) or action.result or "The diff was not approved.")
        return False

    async def go_on_applying(self, run: MaidRun, attempts: Sequence[Attempt]) -> None:
        """After a crash: bring to its end what was being applied, whatever becomes of its turn."""
        action = await self._database.read(partial(_current, run=run)) if run.diff and run.workspace else None
        if action is not None and action.execution == "started":
            await self._carry_out(run, attempts, action, lambda event, data: None)

    async def apply(self, run: MaidRun, attempts: Sequence[Attempt], emit: Emit) -> None:
        """Apply what was approved, or ask again with both sides."""
        action = await self._database.read(partial(_current, run=run))
        if action is None:
            return
        if action.execution == "none":
            claim = await self._database.write(
                partial(ledger.begin, action_id=action.action_id, check=self._means.judge.at_execution,
                        guarded=self._means.guarded)
            )  # fmt: skip
            action = claim.action
        if action.execution != "started":
            return  # The ledger holds it back; the review reads why.
        # Half-applied work is worse than a turn that is cancelled a moment later.
        await through(self._carry_out(run, attempts, action, emit))

    async def _carry_out(self, run: MaidRun, attempts: Sequence[Attempt], action: Action, emit: Emit) -> None:
        workspace, diff = Workspace.from_json(run.workspace or {}), run.diff or {}
        crash_point("maid_apply_before")
        found: Applied | Conflict | str
        try:
            # The allowlist may be another one by now, or a link may lead out of it.
            if self._means.desk.project(run.project_root) != workspace.project_root:
                raise ButlerError("forbidden", f"Another folder is in the place of {run.project_root} now.")
            found = await apply(workspace, diff["sha256"])
        except (ButlerError, OSError) as error:
            found = str(error)
        crash_point("maid_apply_after")
        if isinstance(found, Applied):
            await self._applied(run, attempts, action, found)
            tell(emit, run, None, "applied", ", ".join(found.paths))
            return
        conflict = _conflict(found)
        if isinstance(found, Conflict) and found.kind == "changed" and (now := await self._diff(workspace)):
            diff = now
        text = self._means.redactor.text(f"Not applied: {conflict['detail']}")

        def transaction(connection: Connection) -> None:
            ledger.finish(connection, action.action_id, action.attempts, ToolResult(text, is_error=True))
            store.next_review(connection, run, diff={**diff, "conflict": [conflict]})

        await self._database.write(transaction)
        tell(emit, run, None, "conflict", text)

    async def _diff(self, workspace: Workspace) -> Json | None:
        try:
            found = await take_diff(workspace)
            if (leak := (await leaks_of(found, workspace.tree, self._means.redactor)).violation()) is not None:
                log.warning("diff_with_a_secret", detail=leak)
                return None
            return cast(Json, self._means.redactor.json(diff_document(found)))
        except (ButlerError, OSError) as error:
            log.warning("diff_not_taken", error=str(error))
            return None

    async def _applied(self, run: MaidRun, attempts: Sequence[Attempt], action: Action, found: Applied) -> None:
        text = f"Applied to {run.project_root}: {', '.join(found.paths)}."
        if found.merged:
            text += f" Edited on both sides and merged: {', '.join(found.merged)}."
        status = _good_end(attempts)
        reason = "" if status == "succeeded" else NOTHING_CHECKED

        def transaction(connection: Connection) -> None:
            ledger.finish(connection, action.action_id, action.attempts, ToolResult(self._means.redactor.text(text)))
            store.finish(connection, run.maid_run_id, status, reason)

        await self._database.write(transaction)

    async def _finish(self, run: MaidRun, status: MaidRunStatus, reason: str) -> None:
        reason = self._means.redactor.text(reason)
        await self._database.write(partial(store.finish, maid_run_id=run.maid_run_id, status=status, reason=reason))


NOTHING_CHECKED = "There were no checks, so Butler can't say that it is done."


def _call_id(run: MaidRun) -> str:
    return f"{run.call_id}:review{run.reviews}"


def _current(connection: Connection, run: MaidRun) -> Action | None:
    """The action that asks about the diff as it is now."""
    wanted = _call_id(run)
    return next((one for one in ledger.of_run(connection, run.run_id) if one.call_id == wanted), None)


def _unchanged(attempts: Sequence[Attempt]) -> str:
    """Why there is no diff: the checks may be about something else than what was refused."""
    answers = [one.get("answer") for one in (attempts[-1].evidence.get("permissions") or ())] if attempts else []
    return REFUSED if "reject" in answers else UNCHANGED


def _good_end(attempts: Sequence[Attempt]) -> MaidRunStatus:
    return "succeeded" if attempts and attempts[-1].status == "passed" else "unverified"


def _conflict(found: Conflict | str) -> dict[str, Any]:
    """What keeps the work out, with both sides as far as they can be shown."""
    if isinstance(found, str):
        return {"kind": "error", "detail": found, "files": []}
    files = [
        {"path": one.path, "reason": one.reason, "both_sides": (one.merged_text or "")[:MOST_SIDE]}
        for one in found.files[:MOST_CONFLICTS]
    ]
    return {"kind": found.kind, "detail": found.detail, "files": files}
