"""The ledger: the truth about every tool call. Each transition is one guarded statement that can lose (A8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, select, update
from sqlalchemy.exc import IntegrityError

from butler.approvals.actions import Action
from butler.approvals.calls import Check, Claim, Objection, Proposal, Ruler
from butler.approvals.own_ruling import OBSTACLE
from butler.approvals.statements import ACTIONS_OF_RUN, ADD_ACTION, GET_ACTION, PENDING_OF_THREAD, STATUS_OF_RUN
from butler.canonical import fingerprint
from butler.clock import stamp, stamp_in
from butler.crashpoints import crash_point
from butler.ids import new_code, new_id
from butler.people import Principal
from butler.storage import audit
from butler.storage.database import Database
from butler.storage.tables import actions
from butler.types import Json, Ruling, ToolResult

__all__ = [
    "NOT_ASKED",
    "Check",
    "Claim",
    "Ledger",
    "Objection",
    "Proposal",
    "Ruler",
    "after_crash",
    "begin",
    "cancel_open",
    "finish",
    "get",
    "interrupted_executions",
    "note",
    "of_run",
    "pending_of_thread",
    "propose",
    "reopen",
]

A = TypeVar("A")
NOT_ASKED = ("allowed", "refused")


def get(connection: Connection, action_id: str) -> Action | None:
    """The action with that id."""
    row = connection.execute(GET_ACTION, {"wanted": action_id}).first()
    return Action.of_row(row) if row else None


def of_run(connection: Connection, run_id: str) -> list[Action]:
    """All actions of a run in the order of the calls."""
    return [Action.of_row(row) for row in connection.execute(ACTIONS_OF_RUN, {"wanted": run_id})]


def pending_of_thread(connection: Connection, thread_id: str) -> list[Action]:
    """The pending actions of a thread, oldest first, in the order of the calls."""
    return [Action.of_row(row) for row in connection.execute(PENDING_OF_THREAD, {"wanted": thread_id})]


def propose(
    connection: Connection,
    calls: Sequence[Proposal],
    *,
    run_id: str,
    thread_id: str,
    person: Principal,
    rule: Ruler,
    guarded: bool = False,
    via: str = "model",
) -> list[Action]:
    """Give each call its verdict and its row, all or none; a second time gives the rows of the first (A5)."""
    if guarded:
        _refuse_unless_running(connection, run_id)
    known = {action.call_id: action for action in of_run(connection, run_id)}
    return [
        known.get(call.call_id) or _insert(connection, call, rule(connection, call), run_id, thread_id, person, via)
        for call in calls
    ]


def _refuse_unless_running(connection: Connection, run_id: str) -> None:
    """Nothing is proposed or started for a run that was cancelled or deleted meanwhile. Raises LookupError."""
    status = connection.execute(STATUS_OF_RUN, {"wanted": run_id}).scalar()
    if status != "running":
        raise LookupError(f"the run {run_id} is {status or 'gone'}")


def _insert(
    connection: Connection, call: Proposal, ruling: Ruling, run_id: str, thread_id: str, person: Principal, via: str
) -> Action:
    status = {"allow": "allowed", "approve": "pending", "refuse": "refused"}[ruling.verdict]
    action_id = new_id()
    values: Json = {
        "action_id": action_id, "code": None, "thread_id": thread_id, "run_id": run_id, "call_id": call.call_id,
        "position": call.position, "tool": call.tool, "args": call.args,
        "fingerprint": fingerprint(call.tool, call.args), "tool_digest": call.tool_digest,
        "verdict": ruling.verdict, "title": call.title, "reason": ruling.reason, "rule": ruling.rule,
        "risk": ruling.risk, "deciders": list(ruling.deciders) if ruling.deciders is not None else None,
        "requested_by": person.name, "requester_id": person.user_id, "requester_role": person.role,
        "requested_at": stamp(), "expires_at": None, "status": status, "execution": "none", "attempts": 0,
        "escalate_at": None, "escalate_to": None, "approvals_needed": 1,
    }  # fmt: skip
    if status == "refused":
        lead = "Not run" if ruling.rule.startswith(OBSTACLE) else "Refused by policy"
        values |= {"result": f"{lead}: {ruling.reason}", "result_is_error": True}
    if status == "pending":
        values |= _asking(ruling)
    row = _with_code(connection, lambda code: _insert_row(connection, values, code), coded=status == "pending")
    event: audit.AuditEvent = {"allowed": "allowed", "pending": "requested", "refused": "refused"}[status]  # type: ignore[assignment]
    note(
        connection,
        row,
        event,
        actor=person.name,
        via=via,
        verdict=ruling.verdict,
        matched=list(ruling.matched),
    )
    return row


def _asking(ruling: Ruling) -> Json:
    """The columns that say who may answer, how many have to, and until when."""
    escalates = ruling.escalate_after is not None
    return {
        "deciders": list(ruling.deciders) if ruling.deciders is not None else None,
        "expires_at": stamp_in(ruling.expires_in) if ruling.expires_in is not None else None,
        "approvals_needed": ruling.approvals_needed, "approved_by": None,
        "escalate_at": stamp_in(ruling.escalate_after) if ruling.escalate_after is not None else None,
        "escalate_to": list(ruling.escalate_to) if escalates else None, "escalated_at": None,
    }  # fmt: skip


def _insert_row(connection: Connection, values: Json, code: str | None) -> Action:
    return Action.of_row(connection.execute(ADD_ACTION, values | {"code": code}).one())


def _with_code(connection: Connection, store: Callable[[str | None], A], *, coded: bool) -> A:
    """Store with a typing code that no other pending action has; longer codes once short ones collide."""
    if not coded:
        return store(None)
    for length in (5, 5, 6, 7, 8):
        try:
            with connection.begin_nested():
                return store(new_code(length))
        except IntegrityError as error:
            if "code" not in str(error.orig):
                raise
    return store(new_code(8))


def note(connection: Connection, action: Action, event: audit.AuditEvent, *, actor: str, via: str, **data: Any) -> None:
    """Write an audit row about `action`."""
    if event in ("requested", "unknown"):
        # The action itself forgets its code once it is decided.
        data["code"] = action.code
    audit.record(
        connection, event, actor=actor, via=via, thread_id=action.thread_id, run_id=action.run_id,
        action_id=action.action_id, tool=action.tool, fingerprint=action.fingerprint, rule=action.rule,
        reason=action.reason, **data,
    )  # fmt: skip


def begin(connection: Connection, action_id: str, check: Check, *, guarded: bool = False) -> Claim:
    """Claim an action for execution: the one statement that lets an effect happen (A7, A8).

    Not won: the action is pending, done, refused by `check`, or started by somebody else. Raises LookupError when
    the row is gone.
    """
    action = get(connection, action_id)
    if action is None:
        raise LookupError(action_id)
    if action.status not in ("allowed", "approved") or action.execution != "none":
        return Claim(action)
    if guarded:
        _refuse_unless_running(connection, action.run_id)
    objection = check(connection, action)
    if objection is not None:
        return Claim(_hold(connection, action, objection))
    row = connection.execute(
        update(actions)
        .where(
            actions.c.action_id == action_id,
            actions.c.execution == "none",
            actions.c.status.in_(("allowed", "approved")),
        )
        .values(execution="started", started_at=stamp(), attempts=actions.c.attempts + 1)
        .returning(actions)
    ).one()
    started = Action.of_row(row)
    note(connection, started, "started", actor="butler", via="run", attempt=started.attempts)
    return Claim(started, won=True)


def _hold(connection: Connection, action: Action, objection: Objection) -> Action:
    """The stricter verdict wins at execution: ask a person, or refuse for good (A7)."""
    if objection.ask and objection.ruling is not None:
        return reopen(connection, action, objection.ruling, objection.digest)
    row = connection.execute(
        update(actions)
        .where(actions.c.action_id == action.action_id, actions.c.execution == "none")
        .values(
            execution="failed",
            result=f"Not run: {objection.reason}",
            result_is_error=True,
            finished_at=stamp(),
        )
        .returning(actions)
    ).one()
    held = Action.of_row(row)
    note(connection, held, "refused", actor="policy", via="run", at_execution=objection.reason)
    return held


def reopen(connection: Connection, action: Action, ruling: Ruling, digest: str | None = None) -> Action:
    """Make an action wait for a person that was allowed, or approved under another policy or definition of its tool."""
    values: Json = {
        "status": "pending", "verdict": "approve", "reason": ruling.reason, "rule": ruling.rule, "risk": ruling.risk,
        "decision": None, "requested_at": stamp(), "tool_digest": digest or action.tool_digest, **_asking(ruling),
        # What a crash interrupted before may have taken effect, whatever it is asked about now.
        "execution": "unknown" if action.attempts else "none",
    }  # fmt: skip
    guard = (actions.c.status == action.status) & (actions.c.execution == "none")
    pending = _with_code(connection, lambda code: _update_row(connection, action, guard, values, code), coded=True)
    if pending is None:
        return get(connection, action.action_id) or action
    earlier = {"earlier_decision": {**action.decision, "args": None}} if action.decision else {}
    note(connection, pending, "requested", actor="policy", via="run", **earlier)
    return pending


def _update_row(
    connection: Connection, action: Action, guard: ColumnElement[bool], values: Json, code: str | None
) -> Action | None:
    row = connection.execute(
        update(actions)
        .where(actions.c.action_id == action.action_id, guard)
        .values(**values | {"code": code})
        .returning(actions)
    ).first()
    return Action.of_row(row) if row else None


def finish(connection: Connection, action_id: str, attempt: int, result: ToolResult) -> Action | None:
    """Record the receipt of an execution; None when this attempt no longer owns the action."""
    row = connection.execute(
        update(actions)
        .where(actions.c.action_id == action_id, actions.c.execution == "started", actions.c.attempts == attempt)
        .values(
            execution="failed" if result.is_error else "done",
            result=result.text,
            result_is_error=result.is_error,
            finished_at=stamp(),
        )
        .returning(actions)
    ).first()
    if row is None:
        return None
    action = Action.of_row(row)
    note(connection, action, "failed" if result.is_error else "done", actor="butler", via="run",
         result_sha256=fingerprint("result", {"text": result.text}))  # fmt: skip
    return action


def cancel_open(connection: Connection, run_id: str, *, actor: str, via: str, why: str) -> list[Action]:
    """End what a cancelled run left open: pending and unstarted actions never run; started ones become unknown."""
    text = f"Cancelled: {why}"
    rows = connection.execute(
        update(actions)
        .where(
            actions.c.run_id == run_id,
            actions.c.status.in_(("pending", "allowed", "approved")),
            actions.c.execution.in_(("none", "unknown")),
        )
        .values(status="cancelled", code=None, result=text, result_is_error=True, finished_at=stamp())
        .returning(actions)
    ).all()
    started = connection.execute(
        update(actions)
        .where(actions.c.run_id == run_id, actions.c.execution == "started")
        .values(
            status="cancelled", execution="unknown", result_is_error=True, finished_at=stamp(),
            result=f"{text} It had been started; whether it took effect is unknown.",
        )
        .returning(actions)
    ).all()  # fmt: skip
    ended = [Action.of_row(row) for row in (*rows, *started)]
    for action in ended:
        note(connection, action, "cancelled", actor=actor, via=via, why=why)
    return ended


def interrupted_executions(connection: Connection, run_id: str) -> list[Action]:
    """Actions of a run that were started and have no receipt."""
    rows = connection.execute(select(actions).where(actions.c.run_id == run_id, actions.c.execution == "started"))
    return [Action.of_row(row) for row in rows]


def after_crash(connection: Connection, action: Action, *, idempotent: bool) -> Action | None:
    """Settle a started action whose process died: repeat it if it is idempotent, otherwise ask a person (A8).

    Returns: the row as it then is; None when it is not ``started`` any more.
    """
    if idempotent:
        row = connection.execute(
            update(actions)
            .where(actions.c.action_id == action.action_id, actions.c.execution == "started")
            .values(execution="none")
            .returning(actions)
        ).first()
        if row is None:
            return None
        repeated = Action.of_row(row)
        note(connection, repeated, "repeated", actor="butler", via="recovery", attempt=action.attempts)
        return repeated
    values: Json = {
        "status": "pending", "execution": "unknown", "expires_at": None, "requested_at": stamp(),
        "approved_by": None,
        "reason": f"Butler stopped while this was running (started {action.started_at}, attempt {action.attempts}). "
        "It may or may not have taken effect. Approve repeats it, respond treats it as done with your text "
        "as its result, reject gives up.",
    }  # fmt: skip
    guard = actions.c.execution == "started"
    unknown = _with_code(connection, lambda code: _update_row(connection, action, guard, values, code), coded=True)
    if unknown is None:
        return None
    # As in `decide`: edited arguments stay out of the audit, where nothing masks a tool's secret ones.
    earlier = {**action.decision, "args": None} if action.decision else None
    note(connection, unknown, "unknown", actor="butler", via="recovery", earlier_decision=earlier)
    return unknown


class Ledger:
    """The ledger as the graph's nodes use it: the transitions above, each in its own commit."""

    def __init__(self, database: Database, *, guarded: bool = False) -> None:
        """`guarded`: only runs that the service has marked running may propose or start anything."""
        self._database = database
        self._guarded = guarded

    async def propose(
        self, calls: Sequence[Proposal], *, run_id: str, thread_id: str, person: Principal, rule: Ruler, via: str
    ) -> list[Action]:
        """See `propose`."""
        return await self._database.write(
            partial(
                propose,
                calls=calls,
                run_id=run_id,
                thread_id=thread_id,
                person=person,
                rule=rule,
                guarded=self._guarded,
                via=via,
            )
        )

    async def begin(self, action_id: str, check: Check) -> Claim:
        """See `begin`."""
        # A look costs no commit; whether a pending action is still pending is decided by who writes.
        seen = await self._database.read(partial(get, action_id=action_id))
        if seen is not None and seen.status == "pending":
            return Claim(seen)
        crash_point("started_before")
        claim = await self._database.write(partial(begin, action_id=action_id, check=check, guarded=self._guarded))
        crash_point("started_after")
        return claim

    async def finish(self, action_id: str, attempt: int, result: ToolResult) -> Action | None:
        """See `finish`."""
        crash_point("effect_after")
        action = await self._database.write(lambda connection: finish(connection, action_id, attempt, result))
        crash_point("done_after")
        return action
