"""What happens by the clock: requests expire, and further people may decide (A9)."""

from __future__ import annotations

import asyncio

import structlog

from butler.approvals import deadlines
from butler.clock import stamp
from butler.storage.database import Database
from service.decisions import Decisions
from service.runs import TROUBLE

log = structlog.get_logger("butler.deadlines")

PAUSE_SECONDS = 0.5


async def watch(database: Database, decisions: Decisions) -> None:
    """Expire and escalate soon after the time; whoever decides goes by the clock in any case."""
    while True:
        try:
            await keep(database, decisions)
        except TROUBLE as error:
            log.warning("deadlines_held_up", error=str(error))
        await asyncio.sleep(PAUSE_SECONDS)


async def keep(database: Database, decisions: Decisions) -> None:
    """Do what is due now."""
    expiry, escalation = await database.read(lambda c: (deadlines.next_expiry(c), deadlines.next_escalation(c)))
    moment = stamp()
    if expiry is not None and expiry <= moment:
        await decisions.expire(moment)
    if escalation is not None and escalation <= moment:
        await decisions.escalate(moment)
