"""Decisions that come from Studio: the same `decide()`, with two more reasons to refuse (A7, E1)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision
from butler.approvals.judge import Judge
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import conversations
from butler.storage.database import Database
from service.decisions import Decided, Decisions, Given
from service.naming import Named, resolve
from service.runs import Runs

VIA = "studio"


class StudioDecisions(Decisions):
    """Decides what is open to the person without being an admin, unless `as_admin`."""

    def __init__(self, database: Database, runs: Runs, judge: Judge, *, as_admin: bool) -> None:
        super().__init__(database, runs, judge)
        self._as_admin = as_admin

    async def answered(self, thread_id: str, named: Sequence[Named], person: Principal, asked_at: str) -> Decided:
        """Decide actions of one thread, all or none.

        Args:
            asked_at: when the client sent this; an action that was asked about later is another one. The dev server
                queues what is sent twice, so the second of two approvals may arrive at a question nobody has seen.
        """

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            thread = conversations.owned_thread(connection, thread_id, person)
            plain = [Named(one.decision, one.action_id, one.code) for one in named]
            chosen = resolve(connection, thread_id, str(thread.status), plain, person)
            for (action_id, _), one in zip(chosen, named, strict=True):
                action = ledger.get(connection, action_id)
                assert action is not None  # `resolve` has just read it
                if action.requested_at > asked_at:
                    raise ButlerError("stale_decision", "Another action waits now. Look at it, then decide.")
                if one.tool is not None and one.tool != action.tool:
                    raise ButlerError(
                        "invalid_request", f"An edit can't change the tool from {action.tool!r} to {one.tool!r}."
                    )
            return chosen

        return await self._decide(choose, person, VIA, named=named, thread_id=thread_id)

    def _one(
        self, connection: Connection, action_id: str, decision: Decision, person: Principal, via: str
    ) -> tuple[Action, Given | None]:
        action = ledger.get(connection, action_id)
        if action is not None and not self._as_admin and is_for_admins(action, person):
            raise ButlerError(
                "not_an_approver", "The policy reserves this for an admin, and Studio does not decide as one. Decide "
                "it in Butler itself (or set BUTLER_STUDIO_ADMIN=true).",
            )  # fmt: skip
        return super()._one(connection, action_id, decision, person, via)


def is_for_admins(action: Action, person: Principal) -> bool:
    """Whether this person may decide a pending action only by being an admin."""
    if action.status != "pending":
        return False
    is_requester = person.user_id == action.requester_id
    if action.deciders is None:
        return not is_requester  # Without a rule: an admin, and a requester who is one.
    return not set(action.waits_for) & {person.name, *(["requester"] if is_requester else [])}
