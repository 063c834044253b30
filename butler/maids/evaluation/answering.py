"""Who answers in an evaluation where a person would: the house rules, and the diff of a throw-away project (D13)."""

from __future__ import annotations

import asyncio
from functools import partial

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.judge import Judge
from butler.maids.forbidden import forbidden_command
from butler.people import Principal
from butler.storage.conversations import Lease
from butler.storage.database import Database
from butler.types import Json

FAR = 4_000_000_000.0


class Answering:
    """Decides every question of an evaluation at once, through the one `decide()`; it is what wakes who waits."""

    def __init__(self, database: Database, judge: Judge, person: Principal) -> None:
        self.person = person
        self.lease = Lease("evaluation", FAR)
        self._database = database
        self._judge = judge
        self._version = 0
        self._changed = asyncio.Event()
        self._deciding: set[asyncio.Task[Action | None]] = set()

    @property
    def version(self) -> int:
        """Changes with every decision."""
        return self._version

    async def changed_since(self, version: int, *, at_work: bool = False) -> None:
        """Wait until something was decided after `version` was read."""
        while self._version == version:
            self._changed.clear()
            await self._changed.wait()

    def emit(self, event: str, data: Json) -> None:
        """Take what a run would tell; a maid's question is answered while the maid waits."""
        if event == "approval" and str(data.get("tool", "")).startswith("maid:"):
            task = asyncio.ensure_future(self._answer(str(data["action_id"])))
            self._deciding.add(task)
            task.add_done_callback(self._deciding.discard)

    async def settle(self, action: Action | None, *, accept: bool = True) -> Action | None:
        """Decide an action that is pending, and give it as it is then."""
        if action is None or action.status != "pending":
            return action
        return await self._answer(action.action_id, accept=accept)

    async def _answer(self, action_id: str, *, accept: bool = True) -> Action | None:
        decided = await self._database.write(partial(self._decided, action_id=action_id, accept=accept))
        self._version += 1
        self._changed.set()
        return decided

    def _decided(self, connection: Connection, action_id: str, accept: bool) -> Action | None:
        action = ledger.get(connection, action_id)
        if action is None or action.status != "pending":
            return action
        objection = forbidden(action) if accept else "It can't be applied."
        decision = Decision("approve") if objection is None else Decision("reject", reason=objection)
        return decide(connection, action_id, decision, self.person, via="command", judge=self._judge)


def forbidden(action: Action) -> str | None:
    """Why a maid's request is refused; None where it stays within its tree and does nothing forbidden."""
    if not action.tool.startswith("maid:"):
        return None
    if action.args.get("outside"):
        return "It leaves the project's folder."
    command = action.args.get("command")
    act = forbidden_command(command) if command else None
    return f"It is forbidden: {act}." if act else None
