"""The background work of notifications: look, send, try again, give up; never on a turn's way (B7)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy import Connection

from butler.clock import now, stamp, stamp_in
from butler.crashpoints import crash_point
from butler.people import Principal
from butler.storage.database import Database
from service.notify import queue
from service.notify.announcing import Announcer
from service.notify.channels import Channel, Channels
from service.notify.preparing import Preparer
from service.notify.queue import Notification
from service.notify.sender import Sender

log = structlog.get_logger("butler.notify")

Saw = Callable[[Principal, Sequence[str], str], None]
Trouble = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Pace:
    """How often to look and how patiently to try again, in seconds."""

    look: float = 0.5
    first_retry: float = 5.0
    longest_retry: float = 3600.0
    give_up: float = 24 * 3600.0
    settle: float = 3.0
    sweep: float = 3600.0

    def retry(self, failures: int) -> float:
        """The pause after that many failures in a row: twice as long each time, never all channels at once."""
        pause = min(self.longest_retry, self.first_retry * 2.0 ** min(failures - 1, 30))
        return pause * random.uniform(0.75, 1.25)


@dataclass
class Health:
    """How a channel has done lately; forgotten with the process."""

    failures: int = 0
    quiet_until: float = 0.0


@dataclass
class Notifier:
    """Tells people on their channels; `run` goes on until it is cancelled.

    Args:
        saw: notes that a person was shown actions through a channel.
        trouble: what the disk may raise that passes by itself.
    """

    database: Database
    channels: Channels
    sender: Sender
    preparer: Preparer
    saw: Saw
    trouble: Trouble
    pace: Pace = Pace()
    _health: dict[str, Health] = field(default_factory=dict)
    _tasks: dict[asyncio.Task[None], str] = field(default_factory=dict)
    _swept: float = 0.0

    async def run(self) -> None:
        """Look, send and wait, again and again."""
        announcer = Announcer(self.database, self.channels)
        try:
            while True:
                try:
                    await announcer.look()
                    await self._tidy()
                    await self.dispatch()
                except self.trouble as error:
                    log.warning("notifications_held_up", error=str(error))
                await self._pause()
        finally:
            await self._settle()

    async def dispatch(self) -> None:
        """Start sending what is due, one message at a time for each channel."""
        moment = time.monotonic()
        busy = set(self._tasks.values())
        busy |= {key for key, health in self._health.items() if health.quiet_until > moment}
        busy |= {channel.key for channel in self.channels if self.sender.busy(channel)}
        for one in await self.database.read(partial(queue.due, moment=stamp(), busy=busy)):
            channel = self.channels.get(one.channel)
            if channel is not None:
                task = asyncio.create_task(self._carry(one, channel))
                self._tasks[task] = channel.key
                task.add_done_callback(self._tasks.pop)

    async def _carry(self, one: Notification, channel: Channel) -> None:
        health = self._health.setdefault(channel.key, Health())
        try:
            try:
                await self._deliver(one, channel, health)
            except self.trouble:
                raise
            except Exception as error:
                # A fault of our own: it counts as a failure of this message, so that it can't come round at once.
                log.error("notification_broke", channel=channel.shown, notification=one.seq, exc_info=error)
                await self._fail(one, channel, health, f"Butler itself failed ({type(error).__name__})")
        except self.trouble as error:
            health.quiet_until = time.monotonic() + self.pace.first_retry
            log.warning("notification_held_up", channel=channel.shown, error=str(error))

    async def _deliver(self, one: Notification, channel: Channel, health: Health) -> None:
        """Send one message and write down what came of it.

        A process that dies between the two sends it again after the next start.
        """
        limit = self.sender.limit(channel)
        prepare = partial(self.preparer.prepare, one=one, channel=channel, limit=limit)
        ready = await self.database.write(prepare)
        if ready is None:
            return
        fault = await self.sender.send(channel, ready.message)
        if fault is not None:
            await self._fail(one, channel, health, fault)
            return
        crash_point("notified")
        recovered = health.failures > 0
        health.failures, health.quiet_until = 0, 0.0
        if ready.shows is not None:
            self.saw(ready.person, [ready.shows], "notify")
        await self.database.write(partial(_sent, one=one, recovered=recovered))

    async def _fail(self, one: Notification, channel: Channel, health: Health, fault: str) -> None:
        """The channel rests for a while, longer each time, and so does this message."""
        health.failures += 1
        health.quiet_until = time.monotonic() + self.pace.retry(health.failures)
        log.warning(
            "notification_failed", channel=channel.shown, user=channel.user, error=fault, failures=health.failures
        )
        await self.database.write(partial(_failed, one=one, fault=fault, pace=self.pace))

    async def _tidy(self) -> None:
        """At the start, and every hour: end what no channel takes any more, remove what ended long ago."""
        moment = time.monotonic()
        if self._swept and moment < self._swept + self.pace.sweep:
            return
        self._swept = moment
        known = [channel.key for channel in self.channels]
        await self.database.write(partial(queue.drop_orphans, known=known))
        await self.database.write(partial(queue.sweep, before=ago(queue.KEPT_SECONDS)))

    async def _pause(self) -> None:
        """Until the next look, or until a channel is free for its next message."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=self.pace.look, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(self.pace.look)

    async def _settle(self) -> None:
        """Give what is on its way a moment to be written down; what is not is sent again after the next start."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=self.pace.settle)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _sent(connection: Connection, one: Notification, recovered: bool) -> None:
    queue.close(connection, one.seq, "sent", None)
    if recovered:
        queue.bring_forward(connection, one.channel)


def _failed(connection: Connection, one: Notification, fault: str, pace: Pace) -> None:
    if one.created_at <= ago(pace.give_up):
        queue.close(connection, one.seq, "failed", fault)
    else:
        queue.put_off(connection, one.seq, stamp_in(pace.retry(one.attempts + 1)), fault)


def ago(seconds: float) -> str:
    """The moment that many seconds ago."""
    return stamp(now() - timedelta(seconds=seconds))
