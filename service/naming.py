"""Which action a decision is for: by id, by code, or by its place among those that wait (http-api, *Resume*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, find_pending_code, first_duplicate, may_see
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.tables import actions, sightings


@dataclass(frozen=True)
class Named:
    """A decision and the action it is for: by id, by code, or by its place among the pending ones."""

    decision: Decision
    action_id: str | None = None
    code: str | None = None
    tool: str | None = None


def find_named(connection: Connection, one: Named, person: Principal) -> Action:
    """The action that a decision names, wherever it is. Raises ButlerError ``not_found``."""
    if one.code is not None:
        action = find_pending_code(connection, one.code, person)
        if action is None:
            raise ButlerError(
                "not_found", f"Nothing with the code {one.code!r} waits for you. /approvals lists what does."
            )
        return action
    action = ledger.get(connection, one.action_id or "")
    if action is None or not may_see(action, person):
        raise ButlerError("not_found", f"There is no approval {one.action_id!r}.")
    return action


def resolve(
    connection: Connection, thread_id: str, thread_status: str, named: Sequence[Named], person: Principal
) -> list[tuple[str, Decision]]:
    """Find the actions that a resume of `person` names.

    Raises: ButlerError ``not_parked`` or ``thread_busy`` when nothing of the thread is pending (unless a named action
    was decided already, which `decide` then says), ``not_found``, ``invalid_request`` for wrong counts,
    ``stale_decision`` for an answer by place that was given to another action.
    """
    pending = ledger.pending_of_thread(connection, thread_id)
    ids: list[str]
    if all(one.action_id is None and one.code is None for one in named):
        if pending and len(pending) != len(named):
            raise ButlerError(
                "invalid_request",
                f"{len(named)} decisions were given, but {len(pending)} actions are pending; "
                "give one for each, in order, or name each action.",
            )
        ids = [action.action_id for action in pending]
        for action, one in zip(pending, named, strict=False):
            refuse_repeated_answer(connection, action, one.decision, person)
    else:
        ids = [_find(connection, thread_id, pending, one) or "" for one in named]
    known = [action_id for action_id in ids if action_id]
    if not pending and not known:
        if thread_status == "running":
            raise ButlerError("thread_busy", "A turn of this thread is running; nothing of it waits for a decision.")
        raise ButlerError("not_parked", "Nothing of this thread waits for a decision.")
    if len(known) < len(ids):
        raise ButlerError("not_found", "One of the named actions is not an action of this thread.")
    if (twice := first_duplicate(ids)) is not None:
        raise ButlerError("invalid_request", f"The action {twice!r} is named twice.")
    for action, one in zip(pending, named, strict=False):
        if one.tool is not None and one.tool != action.tool:
            raise ButlerError("invalid_request", f"An edit can't change the tool from {action.tool!r} to {one.tool!r}.")
    return [(action_id, one.decision) for action_id, one in zip(ids, named, strict=True)]


def refuse_repeated_answer(connection: Connection, action: Action, decision: Decision, person: Principal) -> None:
    """Raises ButlerError ``stale_decision`` when an answer by place meets an action that it can't have been meant for.

    A request that is sent twice names nothing, so the second one would approve whatever parked since. It is told by
    this: the person has decided something of the thread before and was never shown what waits now (A7).
    """
    if decision.kind == "reject" or decision.fingerprint is not None:
        return
    shown = select(sightings.c.action_id).where(
        sightings.c.action_id == action.action_id, sightings.c.user_id == person.user_id
    )
    before = select(actions.c.action_id).where(
        actions.c.thread_id == action.thread_id,
        actions.c.status != "pending",
        actions.c.decision["by"].as_string() == person.name,
    )
    if connection.execute(before.limit(1)).first() is None or connection.execute(shown.limit(1)).first() is not None:
        return
    raise ButlerError(
        "stale_decision", "Another action waits now, and you were not shown it yet. Look at it, then decide.",
        fingerprint=action.shown_fingerprint,
    )  # fmt: skip


def _find(connection: Connection, thread_id: str, pending: Sequence[Action], one: Named) -> str | None:
    if one.code is not None:
        code = one.code.strip().upper()
        return next((action.action_id for action in pending if action.code == code), None)
    return connection.execute(
        select(actions.c.action_id).where(
            actions.c.action_id == one.action_id,
            actions.c.thread_id == thread_id,
            actions.c.status.not_in(("allowed", "refused")),
        )
    ).scalar()
