"""SIGKILL with many turns in flight, then a restart: what was lost, what ran twice, what is stuck.

Three kinds of turn are cut: chats that are about to park, approvals that run the tool, and chats whose
tool runs without asking. After the restart a client does what it can: it resumes what is parked,
continues what stands midway, and sends again what the server doesn't know.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import uuid4

from bench.client import ConnectionLost
from bench.peers import Peer, Turn
from bench.process import HarnessError
from bench.report import Row, Section
from bench.tools import effects
from bench.workloads.aftermath import Aftermath
from bench.workloads.governed import order

_KILL_AT = 0.35
_LONGEST_DELAY = 1.5
_KINDS = ("park", "resume", "free tool")


@dataclass
class Toll:
    """What one kill cost."""

    acknowledged: int = 0
    lost: int = 0
    effects_before: int = 0
    twice: int = 0
    stuck: int = 0
    asked_again: int = 0


@dataclass
class _Flight:
    """One turn that may be cut."""

    marker: str
    text: str
    thread_id: str = ""
    parked: Turn | None = None
    answer: Turn | None = None


async def measure(baseline: Peer, butler: Peer, count: int) -> Section:
    """Kill each peer once for each kind of turn, with `count` turns in flight."""
    section = Section(
        f"SIGKILL with {count} turns in flight",
        f"Thinking times of 0 to {_LONGEST_DELAY} s; killed when {_KILL_AT:.0%} were acknowledged (park)"
        " or had had their effect (resume, free tool). *Asked again*: actions whose outcome the server"
        " calls unknown; a person says that they were done.",
    )
    for kind in _KINDS:
        tolls = [await _kill_once(peer, kind, count) for peer in (baseline, butler)]
        base, mine = tolls
        section.rows += [
            Row(f"{kind}: acknowledged before the kill", base.acknowledged, mine.acknowledged, ""),
            Row(f"{kind}: acknowledged and lost", base.lost, mine.lost, "", mine.lost, 0, absolute=True),
            Row(f"{kind}: effects before the kill", base.effects_before, mine.effects_before, ""),
            Row(f"{kind}: effects run twice", base.twice, mine.twice, "", mine.twice, 0, absolute=True),
            Row(f"{kind}: threads stuck", base.stuck, mine.stuck, "", mine.stuck, 0, absolute=True),
            Row(f"{kind}: asked again", base.asked_again, mine.asked_again, ""),
        ]
    return section


async def _kill_once(peer: Peer, kind: str, count: int) -> Toll:
    await peer.start()
    flights = await _prepare(peer, kind, count)
    toll = Toll()

    async def fly(flight: _Flight) -> None:
        try:
            if flight.parked is not None:
                flight.answer = await peer.approve(flight.parked)
            else:
                flight.answer = await peer.chat(flight.text, flight.thread_id)
        except ConnectionLost:
            return

    def far_enough() -> bool:
        if kind == "park":
            reached = sum(flight.answer is not None for flight in flights)
        else:
            reached = len(_happened(peer, flights))
        return reached >= _KILL_AT * count

    async with asyncio.TaskGroup() as group:
        for flight in flights:
            group.create_task(fly(flight))
        await _until(far_enough, 60.0)
        peer.kill()
    toll.acknowledged = sum(flight.answer is not None for flight in flights)
    toll.effects_before = len(_happened(peer, flights))
    await peer.start()
    aftermath = Aftermath.of(peer)
    for flight in flights:
        if flight.answer is not None and not await aftermath.holds(flight.answer, flight.text):
            toll.lost += 1
    settled = await _in_parallel([_settling(aftermath, flight) for flight in flights], 8)
    toll.stuck = settled.count(False)
    toll.asked_again = len(aftermath.asked_again)
    happened = _happened(peer, flights)
    toll.twice = sum(times > 1 for times in happened.values())
    never = [f for f in flights if f.marker not in happened and f.thread_id not in aftermath.asked_again]
    toll.lost += len(never) if not toll.stuck else 0
    peer.stop()
    return toll


def _settling(aftermath: Aftermath, flight: _Flight) -> Callable[[], Awaitable[bool]]:
    return lambda: aftermath.settle(flight.thread_id, flight.text)


async def _in_parallel(jobs: list[Callable[[], Awaitable[bool]]], most: int) -> list[bool]:
    gate = asyncio.Semaphore(most)

    async def one(job: Callable[[], Awaitable[bool]]) -> bool:
        async with gate:
            return await job()

    return list(await asyncio.gather(*(one(job) for job in jobs)))


async def _prepare(peer: Peer, kind: str, count: int) -> list[_Flight]:
    """Make the threads, with one short turn each, and park them where the kind wants it."""
    chance = random.Random(f"{kind} {count}")
    tool = "note_line" if kind == "free tool" else "append_line"

    async def one() -> _Flight:
        marker = uuid4().hex
        before = "" if kind == "resume" else f"[[delay {chance.uniform(0, _LONGEST_DELAY):.3f}]]"
        after = f"[[delay {chance.uniform(0, _LONGEST_DELAY):.3f}]]"
        flight = _Flight(marker, order(marker, tool=tool, before=before, after=after))
        first = await peer.chat("Good day. [[tokens 1]]")
        flight.thread_id = first.thread_id
        if kind == "resume":
            flight.parked = await peer.chat(flight.text, flight.thread_id)
            if flight.parked.status != "parked":
                raise HarnessError(f"{peer.name} did not park: {flight.parked!r}")
        return flight

    flights: list[_Flight] = []
    for _ in range(0, count, 8):
        flights += await asyncio.gather(*(one() for _ in range(min(8, count - len(flights)))))
    return flights


def _happened(peer: Peer, flights: list[_Flight]) -> dict[str, int]:
    """How often each marker's effect happened, where it did."""
    found = effects(peer.work_dir)
    return {flight.marker: len(found[flight.marker]) for flight in flights if flight.marker in found}


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise HarnessError(f"the turns got nowhere within {seconds:g} s")
        await asyncio.sleep(0.005)
