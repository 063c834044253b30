"""An old thread beside young ones, one turn each in turn, so that whatever else the machine does hits both alike."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from bench.load import median
from bench.peers import Peer, Turn
from bench.process import HarnessError

_WORDS = (
    *("harbour", "ticket", "lantern", "cellar", "invoice", "walnut", "garden", "letter", "railway", "copper"),
    *("winter", "market", "candle", "bridge", "doctor", "violin", "pepper", "window", "anchor", "ribbon"),
    *("saddle", "planet", "kettle", "forest", "mirror", "basket", "engine", "velvet", "island", "summer"),
)
AGE = 50
ROUND = 38
"""Twice the turns from one fold to the next: a context is largest just before one, so whole rounds are compared."""
ROUNDS = 3
_FIRST = AGE - ROUND // 2
EXTRA_TURNS = ROUNDS * (_FIRST + 2 * ROUND)
"""What `compare` adds to the data directory."""
_OTHER = 10_000
"""From the numbers of one thread's turns to those of the next: no two say the same, or caches would flatter some."""
_QUIET_SECONDS = 0.02
_QUIET_SHARE = 0.1
_PATIENCE_SECONDS = 2.0


@dataclass
class Side:
    """What the turns of one age took, round by round: seconds to the answer, CPU seconds until quiet again."""

    latencies: list[list[float]] = field(default_factory=list)
    cpu: list[list[float]] = field(default_factory=list)

    def latency(self) -> float:
        return median([seconds for one in self.latencies for seconds in one])

    def cpu_a_turn(self) -> float:
        return sum(map(sum, self.cpu)) / sum(map(len, self.cpu))

    def dearest(self) -> float:
        """The median over the rounds of the turn that took most CPU: one with a fold."""
        return median([max(one) for one in self.cpu])


@dataclass
class Ages:
    """The two sides."""

    young: Side = field(default_factory=Side)
    old: Side = field(default_factory=Side)


async def compare(peer: Peer, turns: int, thread_id: str) -> Ages:
    """A thread of so many turns and threads at turn `AGE` (give or take half a round) take turns.

    Each young thread is there for one round, so none of them grows old; the old one goes on from round to round.
    """
    ages = Ages()
    for number_of_round in range(ROUNDS):
        first = (number_of_round + 1) * _OTHER
        young = (await say(peer, first, None)).thread_id
        for number in range(1, _FIRST):
            await say(peer, first + number, young)
        for side in (ages.young, ages.old):
            side.latencies.append([])
            side.cpu.append([])
        for number in range(ROUND):
            pair = [
                (ages.young, young, first + _FIRST + number),
                (ages.old, thread_id, turns + number_of_round * ROUND + number),
            ]
            for side, thread, at in pair if number % 2 else reversed(pair):
                await _quiet(peer)
                before = peer.server.cpu_by_thread()
                turn = await say(peer, at, thread)
                await _quiet(peer)
                after = peer.server.cpu_by_thread()
                side.latencies[-1].append(turn.seconds)
                side.cpu[-1].append(sum(spent - before.get(task, 0.0) for task, spent in after.items()))
    return ages


async def say(peer: Peer, number: int, thread_id: str | None) -> Turn:
    """One turn of about 200 tokens each way; the same number says the same."""
    words = random.Random(number).choices(_WORDS, k=140)
    turn = await peer.chat(f"Turn {number}: {' '.join(words)} [[tokens 200]]", thread_id)
    if turn.status != "done":
        raise HarnessError(f"{peer.name}: turn {number} ended as {turn.status!r}")
    return turn


async def _quiet(peer: Peer) -> None:
    """Wait until the server has done what it does after an answer (prune, index, fold)."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE_SECONDS
    spent = sum(peer.server.cpu_by_thread().values())
    while loop.time() < end:
        await asyncio.sleep(_QUIET_SECONDS)
        now = sum(peer.server.cpu_by_thread().values())
        if now - spent < _QUIET_SHARE * _QUIET_SECONDS:
            return
        spent = now
