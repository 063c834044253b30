"""A notifier in one process over a sender that keeps what it is given."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import select, update

from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.people import Principal
from butler.redact import Redactor
from butler.storage.tables import actions, notifications, users
from butler.types import Json
from config.notify_file import ChannelDefinition
from service.notify.announcing import Announcer
from service.notify.channels import Channel, Channels
from service.notify.links import SignedLinks
from service.notify.notifier import Notifier, Pace
from service.notify.preparing import Preparer
from service.notify.sender import Message
from tests.support.parts import (
    ADMIN,
    add_people,
    judge,
    new_database,
    registry,
    tool,
)

QUICK = Pace(look=0.01, first_retry=0.01, longest_retry=0.05, settle=1.0)
TROUBLE = (sqlite3.OperationalError,)


def channel(user: str, **changes: Any) -> ChannelDefinition:
    values: dict[str, Any] = {"events": frozenset({"approvals", "replies"}), "links": True, "source": "test"}
    return ChannelDefinition(user, SecretStr(f"json://{user}.example/planted-path"), **{**values, **changes})


class Post:
    """A sender that keeps what it is given; faults and gates are by user."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.faults: dict[str, list[str]] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.tries: list[str] = []
        self.arrived = asyncio.Condition()

    def limit(self, channel: Channel) -> int:
        return 10_000

    def busy(self, channel: Channel) -> bool:
        return False

    async def send(self, channel: Channel, message: Message) -> str | None:
        self.tries.append(channel.user)
        if (gate := self.gates.get(channel.user)) is not None:
            await gate.wait()
        if faults := self.faults.get(channel.user):
            return faults.pop(0)
        async with self.arrived:
            self.sent.append((channel.user, message.body))
            self.arrived.notify_all()
        return None

    def to(self, user: str) -> list[str]:
        return [body for name, body in self.sent if name == user]

    async def when(self, probe: Callable[[], object]) -> None:
        async with asyncio.timeout(30), self.arrived:
            await self.arrived.wait_for(probe)


class House:
    """What the notifier stands on."""

    def __init__(self, path: Path, *definitions: ChannelDefinition) -> None:
        self.database = new_database(path / "butler.db")
        self.database.write_now(add_people)
        self.channels = Channels(definitions)
        self.post = Post()
        self.links = SignedLinks(path, "http://butler.example")
        self.seen: list[tuple[str, str, str]] = []

    def notifier(self, pace: Pace = QUICK) -> Notifier:
        preparer = Preparer(self.links, registry(tool("act")), Redactor([]))
        return Notifier(self.database, self.channels, self.post, preparer, self._saw, TROUBLE, pace)

    def _saw(self, person: Principal, action_ids: Sequence[str], via: str) -> None:
        self.seen += [(person.name, action_id, via) for action_id in action_ids]

    @asynccontextmanager
    async def running(self, pace: Pace = QUICK) -> AsyncIterator[None]:
        task = asyncio.create_task(self.notifier(pace).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def look(self) -> list[Json]:
        """Queue what is new, and give the rows."""
        asyncio.run(Announcer(self.database, self.channels).look())
        return self.rows()

    def rows(self) -> list[Json]:
        query = select(notifications, users.c.name).join(users).order_by(notifications.c.seq)
        return self.database.write_now(lambda c: [dict(row._mapping) for row in c.execute(query)])

    async def until(self, status: str, count: int = 1) -> list[Json]:
        async with asyncio.timeout(30):
            while True:
                rows = await self.database.read(
                    lambda c: [dict(r._mapping) for r in c.execute(select(notifications)) if r.status == status]
                )
                if len(rows) >= count:
                    return rows
                await asyncio.sleep(0.005)

    def told(self) -> list[str]:
        return [row["name"] for row in self.rows()]

    def change(self, action: Action, **values: Any) -> None:
        self.database.write_now(
            lambda c: c.execute(update(actions).where(actions.c.action_id == action.action_id).values(**values))
        )

    def reject(self, action: Action) -> None:
        judging = judge(registry(tool("act")))
        self.database.write_now(
            lambda c: decide(c, action.action_id, Decision("reject"), ADMIN, via="test", judge=judging)
        )
