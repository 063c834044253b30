"""The event log of a run: written once, read by any number of streams, joined late, replayed (http-api,
*Streaming*).
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from butler.types import Json

EPOCH_SIZE = 1_000_000
"""Sequence numbers of a run that was picked up again by a new process begin at the next multiple."""
FRAME_BYTES = 120
MOST_LOGS = 256
MOST_LOG_BYTES = 16 * 1024 * 1024
"""What ended runs may hold in memory for late joiners, in all; the database still has their outcomes."""
KEEP_ALIVE_SECONDS = 10.0
"""The contract says at least every 15 s; timers and networks are late."""


def to_json(value: Any) -> bytes:
    """JSON as UTF-8; text that UTF-8 can't carry is escaped instead of refused."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(value).encode("ascii")


Tap = Callable[["RunLog", str, Json], None]
"""Hears every event of every run as it happens; never blocks and never raises."""


@dataclass(frozen=True, slots=True)
class _Frame:
    seq: int
    event: str
    text: bytes


class RunLog:
    """What happened in a run, in order. `end` is there exactly once at the end of each stream."""

    def __init__(self, run_id: str, epoch: int = 0, taps: Sequence[Tap] = ()) -> None:
        self.run_id = run_id
        self._taps = taps
        self.outcome: Json | None = None
        self._base = epoch * EPOCH_SIZE
        self.size = 0
        self._frames: list[_Frame] = []
        self._followers: list[asyncio.Future[bool]] = []
        self._awaiting_end: list[asyncio.Future[bool]] = []
        self._closed = False

    @property
    def position(self) -> int:
        """The number of events so far; streams that begin now pass it to `follow`."""
        return len(self._frames)

    @property
    def busy(self) -> bool:
        """Whether somebody follows it or its run is still going."""
        return bool(self._followers or self._awaiting_end) or self.outcome is None

    def emit(self, event: str, data: Json) -> None:
        """Append an event and wake everyone who follows."""
        seq = self._base + len(self._frames) + 1
        text = b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, event.encode(), to_json(data))
        self._frames.append(_Frame(seq, event, text))
        self.size += len(text) + FRAME_BYTES
        _wake(self._followers)
        for tap in self._taps:
            tap(self, event, data)

    def events_from(self, position: int) -> Iterator[tuple[str, Json]]:
        """The events from `position` on, as they are now."""
        for frame in self._frames[position:]:
            yield frame.event, orjson.loads(frame.text.partition(b"\ndata: ")[2])

    def begin(self, thread_id: str) -> None:
        """Say which run this is; also when it goes on after a park."""
        self.outcome = None
        self.emit("run", {"thread_id": thread_id, "run_id": self.run_id})

    def end(self, outcome: Json) -> None:
        """Say how the run stands; streams that are up to date end here."""
        self.outcome = outcome
        self.emit("end", outcome)
        _wake(self._awaiting_end)

    def index_after(self, last_seen: int) -> int:
        """The position behind the event with sequence number `last_seen`."""
        return next((index for index, frame in enumerate(self._frames) if frame.seq > last_seen), len(self._frames))

    async def follow(self, position: int) -> AsyncIterator[bytes]:
        """Yield events from `position` on, those at hand in one piece, until the run has ended or parked.

        An `end` of an earlier stretch, and the `run` of a later one, are left out: each stream has one of each.
        """
        first = True
        if self.outcome is not None and position >= len(self._frames):
            # A client that has seen the end and comes back gets it again, under the same number.
            position = len(self._frames) - 1
        while True:
            chunk: list[bytes] = []
            while position < len(self._frames):
                frame = self._frames[position]
                position += 1
                if frame.event == "end":
                    if position == len(self._frames):
                        chunk.append(frame.text)
                        yield b"".join(chunk)
                        return
                    continue
                if frame.event == "run" and not first:
                    continue
                first = False
                chunk.append(frame.text)
            if chunk:
                yield b"".join(chunk)
            elif self._closed:
                return
            elif not await _woken(self._followers, KEEP_ALIVE_SECONDS):
                yield b": keep-alive\n\n"

    async def ended(self, position: int) -> Json | None:
        """Wait for the next `end` at or after `position` and give its outcome; None when the server stops first."""
        while not self._closed or self.outcome is not None:
            if self.outcome is not None and self._ends_after(position):
                return self.outcome
            if self._closed:
                break
            await _woken(self._awaiting_end)
        return None

    def _ends_after(self, position: int) -> bool:
        # From the back: there it is, nearly always.
        return any(frame.event == "end" for frame in reversed(self._frames[position:]))

    def close(self) -> None:
        """The server stops: streams end here, clients join anew after the restart."""
        self._closed = True
        _wake(self._followers)
        _wake(self._awaiting_end)


def _wake(waiting: list[asyncio.Future[bool]]) -> None:
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(True)
    waiting.clear()


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


async def _woken(waiting: list[asyncio.Future[bool]], seconds: float | None = None) -> bool:
    """Wait to be woken; False when `seconds` have passed before that."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[bool] = loop.create_future()
    waiting.append(waiter)
    alarm = loop.call_later(seconds, _give_up, waiter) if seconds else None
    try:
        return await waiter
    finally:
        if alarm is not None:
            alarm.cancel()
        if waiter in waiting:
            waiting.remove(waiter)


class RunLogs:
    """The logs in memory; the oldest that nobody needs make room, the database still has their outcomes."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, RunLog] = OrderedDict()
        self.taps: list[Tap] = []
        """Whoever hears the events of every run, in this order."""

    def get(self, run_id: str) -> RunLog | None:
        """The log of that run, if this process has it."""
        return self._logs.get(run_id)

    def open(self, run_id: str, epoch: int = 0) -> RunLog:
        """The log of that run, new if need be."""
        log = self._logs.get(run_id)
        if log is None:
            log = self._logs[run_id] = RunLog(run_id, epoch, self.taps)
            self._make_room()
        else:
            self._logs.move_to_end(run_id)
        return log

    @property
    def busy(self) -> bool:
        """Whether any run of this process is at work, or somebody still listens to one."""
        return any(log.busy for log in self._logs.values())

    def positions(self) -> dict[str, int]:
        """How far each log has come."""
        return {run_id: log.position for run_id, log in self._logs.items()}

    def close(self) -> None:
        """End every stream."""
        for log in self._logs.values():
            log.close()

    def drop(self, run_id: str) -> None:
        """Forget a run that is gone."""
        self._logs.pop(run_id, None)

    def _make_room(self) -> None:
        held = sum(log.size for log in self._logs.values())
        for run_id, log in list(self._logs.items()):
            if len(self._logs) <= MOST_LOGS and held <= MOST_LOG_BYTES:
                return
            if not log.busy:
                held -= log.size
                del self._logs[run_id]
