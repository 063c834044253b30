"""`decide()`: the only way in which a pending action is ever decided, whatever face the decision came
through (E1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from butler.approvals import grants
from butler.approvals.actions import Action, DecisionKind
from butler.approvals.deadlines import escalate_due
from butler.approvals.entitled import still_able, under
from butler.approvals.grants import GrantWish
from butler.approvals.judge import Judge
from butler.approvals.ledger import NOT_ASKED, get, note
from butler.approvals.show import GIVEN_FIELDS
from butler.approvals.wishes import terms_of
from butler.canonical import fingerprint
from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import audit
from butler.storage.tables import actions
from butler.types import Json


@dataclass(frozen=True)
class Decision:
    """What a person answers to one action; `args` only with edit, `response` only with respond."""

    kind: DecisionKind
    args: Json | None = None
    reason: str | None = None
    response: str | None = None
    fingerprint: str | None = None
    grant: GrantWish | None = None


def check_shape(decision: Decision) -> None:
    """Refuse combinations that mean nothing. Raises ButlerError ``invalid_request`` (A9)."""
    if (decision.kind == "edit") != (decision.args is not None):
        raise ButlerError(
            "invalid_request", "An edit needs `args` with all the arguments; no other decision takes them."
        )
    if (decision.kind == "respond") != (decision.response is not None):
        raise ButlerError("invalid_request", "A respond needs `response`; no other decision takes it.")
    if decision.grant is not None and decision.kind != "approve":
        raise ButlerError("invalid_request", "A `grant` goes with an approve only.")


def refuse_if_not_decider(action: Action, person: Principal) -> None:
    """Raises ButlerError ``not_an_approver`` (B6)."""
    if action.may_be_decided_by(person):
        return
    who = ", ".join(action.deciders) if action.deciders else "an admin"
    if person.user_id == action.requester_id and action.deciders:
        detail = f"You requested this action, so somebody else decides it: {who}."
    else:
        detail = f"You may not decide this action; {who} may."
    raise ButlerError("not_an_approver", detail)


def recorded(action: Action, judge: Judge) -> ButlerError:
    """The answer to whoever comes too late: the outcome that stands, secret arguments masked."""
    decision = dict(action.decision) if action.decision else None
    if decision and decision.get("args") is not None:
        decision["args"] = judge.shown(action.tool, decision["args"])
    decision = judge.redacted(decision)
    if action.status == "expired":
        return ButlerError("expired", "This approval request has expired; nothing was run.", decision=decision)
    decision = decision or {"decision": action.status, "by": None, "at": action.finished_at, "via": None,
                            "reason": None, "args": None}  # fmt: skip
    return ButlerError(
        "already_decided", f"This action is not pending; it is {action.status} already.", decision=decision
    )


def decide(
    connection: Connection, action_id: str, decision: Decision, person: Principal, *, via: str, judge: Judge
) -> Action:
    """Decide one action, or raise and change nothing.

    Where several people have to approve, all but the last approval leave it pending, with one more name on it.

    Raises: ButlerError ``not_found``, ``not_an_approver``, ``expired``, ``already_decided`` (with the decision that
    stands, or one's own earlier approval), ``stale_decision``, ``forbidden`` (policy refuses the edited arguments, or
    the grant needs an admin) or ``invalid_request``. Of an edit, ``not_an_approver`` also speaks of the edited call.
    """
    check_shape(decision)
    action = _open_question(connection, action_id, decision, person, judge)
    if decision.kind == "edit":
        _check_edit(action, decision, person, judge)
    terms = terms_of(action, decision.grant, person, judge) if decision.grant is not None else None
    given = _still_given(connection, action)
    values = _outcome(action, decision, person, via)
    if decision.kind == "approve" and action.approvals_needed > 1:
        mine = {"user_id": person.user_id, **{key: values["decision"][key] for key in GIVEN_FIELDS}}
        if len(given) + 1 < action.approvals_needed:
            values = {}
        values["approved_by"] = [*given, mine]
    row = connection.execute(
        update(actions)
        # Two deciders at once: the second statement finds no pending row, or one with another count of approvals.
        .where(
            actions.c.action_id == action_id,
            actions.c.status == "pending",
            _approvals() == len(action.approved_by or ()),
        )
        .values(**values)
        .returning(actions)
    ).first()
    if row is None:
        raise recorded(get(connection, action_id) or action, judge)
    decided = Action.of_row(row)
    _note(connection, decided, decision, person, via)
    if terms is not None:
        grants.create(connection, decided, person, terms, via)
    return decided


def _open_question(
    connection: Connection, action_id: str, decision: Decision, person: Principal, judge: Judge
) -> Action:
    """The pending action, if this person may answer this to it; otherwise raises as `decide`."""
    action = open_question(connection, action_id, person, judge)
    if action.escalation_is_due:
        escalate_due(connection, stamp(), action_id)
        action = get(connection, action_id) or action
    if decision.fingerprint is not None and decision.fingerprint != action.shown_fingerprint:
        raise ButlerError(
            "stale_decision", "The pending action is not the one you were shown. Look at it again, then decide.",
            fingerprint=action.shown_fingerprint,
        )  # fmt: skip
    if decision.kind not in action.allowed_decisions:
        raise ButlerError("invalid_request", f"This action allows only {', '.join(action.allowed_decisions)}.")
    mine = action.approval_of(person)
    if decision.kind == "approve" and mine is not None:
        raise ButlerError(
            "already_decided", "You have approved this already; another person has to approve it too.",
            decision={"decision": "approve", **{key: mine.get(key) for key in GIVEN_FIELDS}, "args": None},
        )  # fmt: skip
    return action


def open_question(connection: Connection, action_id: str, person: Principal, judge: Judge) -> Action:
    """A pending action that this person may decide.

    Raises: ButlerError ``not_found``, ``not_an_approver``, ``expired`` or ``already_decided``.
    """
    action = get(connection, action_id)
    if action is None or action.status in NOT_ASKED:
        raise ButlerError("not_found", f"There is no approval {action_id!r}.")
    refuse_if_not_decider(action, person)
    if action.status != "pending":
        raise recorded(action, judge)
    if action.has_expired:
        raise ButlerError("expired", "This approval request has expired; nothing was run.", decision=None)
    return action


def _still_given(connection: Connection, action: Action) -> list[Json]:
    """The earlier approvals of those who may still decide: who was disabled since counts no more."""
    if not action.approved_by:
        return []
    able = still_able(connection, action, [one["by"] for one in action.approved_by])
    return [one for one in action.approved_by if one["by"] in able]


def _approvals() -> ColumnElement[int]:
    """How many have approved so far."""
    return func.coalesce(func.json_array_length(actions.c.approved_by), 0)


def _note(connection: Connection, decided: Action, decision: Decision, person: Principal, via: str) -> None:
    """Write the decision into the audit."""
    if decided.status == "pending":
        mine = {**(decided.approval_of(person) or {}), "decision": "approve"}
        note(connection, decided, "approved_in_part", actor=person.name, via=via, decision=mine,
             approvals=len(decided.approved_by or ()), approvals_needed=decided.approvals_needed)  # fmt: skip
        return
    event: audit.AuditEvent
    match decision.kind:
        case "approve":
            event = "approved"
        case "edit":
            event = "edited"
        case "respond":
            event = "responded"
        case "reject":
            event = "changes_requested" if _asks_for_changes(decided, decision.reason) else "rejected"
    # Edited arguments stay out of the audit, where nothing masks a tool's secret ones; their fingerprint is in.
    said = {**(decided.decision or {}), "args": None, "run_fingerprint": decided.run_fingerprint}
    note(connection, decided, event, actor=person.name, via=via, decision=said)


def _asks_for_changes(action: Action, reason: str | None) -> bool:
    """Whether a reject tells the model what to do differently; after a crash there is nothing to change."""
    return bool(reason and reason.strip()) and action.execution != "unknown"


def _check_edit(action: Action, decision: Decision, person: Principal, judge: Judge) -> None:
    """An edited call is another call: whoever edits it must be enough to approve that one too."""
    problems, ruling = judge.on_edit(action, decision.args or {})
    if problems:
        raise ButlerError("invalid_request", f"The edited arguments don't fit the tool: {'; '.join(problems)}")
    if ruling.verdict == "refuse":
        raise ButlerError("forbidden", f"Policy refuses the edited arguments ({ruling.rule}): {ruling.reason}")
    if ruling.verdict == "allow":
        return
    if not under(action, ruling, stamp()).may_be_decided_by(person):
        who = ", ".join(ruling.deciders) if ruling.deciders else "an admin"
        raise ButlerError(
            "not_an_approver",
            f"You may not decide the call with the edited arguments ({ruling.rule}); {who} may. Reject this one with "
            "the reason, so that the other call is proposed.",
        )
    if ruling.approvals_needed > 1:
        raise ButlerError(
            "invalid_request",
            f"{ruling.approvals_needed} people have to approve the call with the edited arguments ({ruling.rule}), so "
            "an edit can't. Reject this one with the reason, so that the other call is proposed.",
        )


def _outcome(action: Action, decision: Decision, person: Principal, via: str) -> Json:
    record: Json = {
        "decision": decision.kind, "by": person.name, "at": stamp(), "via": via, "reason": decision.reason,
        "args": decision.args,
    }  # fmt: skip
    values: Json = {"decision": record, "code": None}
    match decision.kind:
        case "approve":
            # A repeat after a crash runs what had been edited before; say so where the decision is shown.
            record["args"] = action.run_args
            values |= {"status": "approved", "execution": "none"}
        case "edit":
            args = decision.args or {}
            values |= {
                "status": "approved",
                "run_args": args,
                "run_fingerprint": fingerprint(action.tool, args),
            }
        case "respond":
            values |= {
                "status": "approved", "execution": "done", "result": decision.response, "result_is_error": False,
                "finished_at": stamp(),
            }  # fmt: skip
        case "reject":
            values |= {
                "status": "rejected", "result": _rejection(action, decision.reason), "result_is_error": True,
                "finished_at": stamp(),
            }  # fmt: skip
    return values


def _rejection(action: Action, reason: str | None) -> str:
    if action.execution == "unknown":
        text = "Given up: Butler stopped while this ran, so it may or may not have taken effect. It is not repeated."
    elif _asks_for_changes(action, reason):
        text = "Not run: a person rejected this action as it is and said why."
    else:
        return "Not run: a person rejected this action."
    return f"{text} Reason: {reason}" if reason else text


def find_pending_code(connection: Connection, code: str, person: Principal) -> Action | None:
    """The pending action with that typing code, if this person may know of it."""
    row: Any = connection.execute(
        select(actions).where(actions.c.code == code.strip().upper(), actions.c.status == "pending")
    ).first()
    action = Action.of_row(row) if row else None
    if action is None or not may_see(action, person):
        return None
    return action


def may_see(action: Action, person: Principal) -> bool:
    """Whether this person may know that the action exists: its requester, whoever may decide it, any admin."""
    return person.user_id == action.requester_id or action.may_be_decided_by(person)


def first_duplicate(ids: Sequence[str]) -> str | None:
    """The first id that is named twice."""
    seen: set[str] = set()
    return next((one for one in ids if one in seen or seen.add(one)), None)  # type: ignore[func-returns-value]
