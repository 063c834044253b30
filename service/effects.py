"""Effects whose process died before their receipt: stopped, then unknown or repeatable, never assumed (A8)."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from butler.approvals import ledger
from butler.storage.database import Database
from butler.tools.registry import ToolRegistry
from butler.tools.strays import kill_strays

log = structlog.get_logger("butler.effects")


async def settle_effects(database: Database, tools: ToolRegistry, run_id: str) -> None:
    """Stop what a dead process left running of a run, then make its started actions unknown or repeatable.

    Only for runs that nobody drives at the moment: a started action of theirs has no one who would finish it.
    """
    for action in await database.read(partial(ledger.interrupted_executions, run_id=run_id)):
        await asyncio.to_thread(kill_strays, action.action_id)
        tool = tools.get(action.tool)
        if tool is not None and tool.resumable:
            continue  # Whoever started it finds in the database how far it came.
        repeat = tool is not None and tool.idempotent
        await database.write(partial(ledger.after_crash, action=action, idempotent=repeat))
        log.warning("effect_interrupted", action_id=action.action_id, tool=action.tool, repeated=repeat)
