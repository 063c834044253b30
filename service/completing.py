"""Accepting or rejecting a maid's finished work by the task's id: the pending `session_complete` is found (D6)."""

from __future__ import annotations

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.decide import Decision
from butler.errors import ButlerError
from butler.people import Principal
from butler.tools.delegating import SESSION_COMPLETE
from service.butler import ButlerService
from service.decisions import Decided
from service.maids import owned


async def complete(
    service: ButlerService, person: Principal, maid_run_id: str, decision: Decision, via: str
) -> Decided:  # fmt: skip
    """Decide the question about a task's diff.

    Raises:
        ButlerError: ``not_found`` also for somebody else's task; ``not_parked`` where no finished work was ever asked
            about; else as for any decision, such as ``already_decided`` with the one that stands.
    """

    def question(connection: Connection) -> str:
        run = owned(connection, maid_run_id, person)
        asked = [
            one
            for one in ledger.of_run(connection, run.run_id)
            if one.tool == SESSION_COMPLETE and one.args.get("maid_run_id") == maid_run_id
        ]
        if not asked:
            raise ButlerError("not_parked", f"The maid run {maid_run_id!r} has no finished work to accept yet.")
        # After a reject with feedback, or a conflict, there is more than one: the newest is what counts.
        pending = [one for one in asked if one.status == "pending"]
        return max(pending or asked, key=lambda one: one.requested_at).action_id

    return await service.decisions.one(await service.database.read(question), decision, person, via)
