"""Decisions on actions that the caller may not even know of: answered as if there were none, but audited (A9, B6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import may_see
from butler.people import Principal
from butler.storage import audit
from butler.storage.tables import actions
from service.naming import Named


def note_hidden(
    connection: Connection, named: Sequence[Named], thread_id: str | None, person: Principal, via: str
) -> None:
    """Write a row for each action that was named, exists, and is not this person's to know."""
    for one in named:
        for action in _meant(connection, one, thread_id):
            if action.status not in ledger.NOT_ASKED and not may_see(action, person):
                audit.record(
                    connection, "attempt_refused", actor=person.name, via=via, action_id=action.action_id,
                    thread_id=action.thread_id, run_id=action.run_id, code="not_found", decision=one.decision.kind,
                )  # fmt: skip


def _meant(connection: Connection, one: Named, thread_id: str | None) -> Iterator[Action]:
    if one.action_id is not None:
        action = ledger.get(connection, one.action_id)
        if action is not None:
            yield action
    elif one.code is not None:
        wanted = actions.c.code == one.code.strip().upper()
        row = connection.execute(select(actions).where(wanted, actions.c.status == "pending")).first()
        if row is not None:
            yield Action.of_row(row)
    elif thread_id is not None:
        yield from ledger.pending_of_thread(connection, thread_id)
