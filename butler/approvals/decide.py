"""`decide()`: the only way in which a pending action is ever decided, whatever face the decision came
through (E1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from butler.approvals import grants
from butler.approvals.actions import Action, DecisionKind
from butler.approvals.grants import GrantWish
from butler.approvals.judge import Judge
from butler.approvals.ledger import get, note
from butler.canonical import fingerprint
from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
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
    if not action.may_be_decided_by(person):
        who = ", ".join(action.deciders) if action.deciders else "an admin"
        raise ButlerError("not_an_approver", f"You may not decide this action; {who} may.")


def recorded(action: Action, judge: Judge) -> ButlerError:
    """The answer to whoever comes too late: the outcome that stands, secret arguments masked."""
    decision = dict(action.decision) if action.decision else None
    if decision and decision.get("args") is not None:
        decision["args"] = judge.shown(action.tool, decision["args"])
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

    Raises: ButlerError ``not_found``, ``not_an_approver``, ``expired``, ``already_decided`` (with the decision that
    stands), ``stale_decision``, ``forbidden`` (policy refuses the edited arguments) or ``invalid_request``.
    """
    check_shape(decision)
    action = get(connection, action_id)
    if action is None or action.status in ("allowed", "refused"):
        raise ButlerError("not_found", f"There is no approval {action_id!r}.")
    refuse_if_not_decider(action, person)
    if action.status != "pending":
        raise recorded(action, judge)
    if action.has_expired:
        raise ButlerError("expired", "This approval request has expired; nothing was run.", decision=None)
    if decision.fingerprint is not None and decision.fingerprint != action.shown_fingerprint:
        raise ButlerError(
            "stale_decision", "The pending action is not the one you were shown. Look at it again, then decide.",
            fingerprint=action.shown_fingerprint,
        )  # fmt: skip
    if decision.kind not in action.allowed_decisions:
        raise ButlerError("invalid_request", f"This action allows only {', '.join(action.allowed_decisions)}.")
    if decision.kind == "edit":
        _check_edit(action, decision, judge)
    row = connection.execute(
        update(actions)
        # Two deciders at once: the second statement finds no pending row.
        .where(actions.c.action_id == action_id, actions.c.status == "pending")
        .values(**_outcome(action, decision, person, via))
        .returning(actions)
    ).first()
    if row is None:
        raise recorded(get(connection, action_id) or action, judge)
    decided = Action.of_row(row)
    event = {"approve": "approved", "edit": "edited", "respond": "responded", "reject": "rejected"}[decision.kind]
    # Edited arguments stay out of the audit, where nothing masks a tool's secret ones; their fingerprint is in.
    said = {**(decided.decision or {}), "args": None, "run_fingerprint": decided.run_fingerprint}
    note(connection, decided, event, actor=person.name, via=via, decision=said)  # type: ignore[arg-type]
    if decision.grant is not None:
        grants.create(connection, decided, person, decision.grant, via)
    return decided


def _check_edit(action: Action, decision: Decision, judge: Judge) -> None:
    problems, ruling = judge.on_edit(action, decision.args or {})
    if problems:
        raise ButlerError("invalid_request", f"The edited arguments don't fit the tool: {'; '.join(problems)}")
    if ruling.verdict == "refuse":
        raise ButlerError("forbidden", f"Policy refuses the edited arguments ({ruling.rule}): {ruling.reason}")


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
    elif reason:
        text = "Not run: a person rejected this action as it is and said why."
    else:
        text = "Not run: a person rejected this action."
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
