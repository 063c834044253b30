"""Runs blocks of equal work against a peer and keeps what they cost."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.client import ConnectionLost
from bench.peers import Floor, Peer, Turn
from bench.process import Cpu, HarnessError

Operation = Callable[[int], Awaitable[Turn]]


@dataclass(frozen=True)
class Block:
    """One block of turns on one peer."""

    turns: list[Turn]
    seconds: float
    cpu: Cpu

    @property
    def per_second(self) -> float:
        return len(self.turns) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU of the server process for one turn, its children not counted."""
        return 1000 * self.cpu.own / len(self.turns)

    @property
    def children_ms(self) -> float:
        return 1000 * self.cpu.children / len(self.turns)

    def latency_ms(self, share: float = 0.5) -> float:
        return 1000 * quantile([turn.seconds for turn in self.turns], share)

    def first_token_ms(self) -> float:
        return 1000 * quantile([t.first_token for t in self.turns if t.first_token is not None], 0.5)


async def run_block(peer: Peer, operation: Operation, count: int, concurrency: int) -> Block:
    """Call `operation` for 0…count-1, at most `concurrency` at a time."""
    numbers = iter(range(count))
    turns: list[Turn] = []

    async def work() -> None:
        for number in numbers:
            turns.append(await operation(number))

    before = _cpu(peer)
    started = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, count)):
                group.create_task(work())
    except* ConnectionLost as lost:
        raise HarnessError(f"{peer.name} closed a connection: {lost.exceptions[0]}\n{peer.log_tail()}") from lost
    except* HarnessError as errors:
        raise errors.exceptions[0] from errors
    seconds = time.perf_counter() - started
    return Block(turns, seconds, _cpu(peer) - before)


def _cpu(peer: Peer) -> Cpu:
    return Cpu(0.0, 0.0) if isinstance(peer, Floor) else peer.server.cpu()


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
