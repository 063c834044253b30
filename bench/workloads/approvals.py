"""The time from a decision to the effect of the tool it was about."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from bench.load import quantile, run_block
from bench.peers import Baseline, Butler, Peer, Turn
from bench.process import HarnessError
from bench.report import Row, Section
from bench.tools import TOOL_SCRIPT, effects
from bench.workloads.chat import compare
from bench.workloads.governed import order

_NOTE = (
    "From the moment the decision is sent (Butler: `POST /approvals/{action_id}`, the baseline: its resume) to the"
    " moment the tool has written its line. The number is how many people decide at once. Every effect is counted"
    " afterwards: each happened exactly once."
)
_END = re.compile(rb"event: ?end")
# The line first, then the word that it is there; so what is measured ends after the effect.
_SCRIPT = """\
printf "%s %s\\n" "${BUTLER_ACTION_ID:-none}" "$1" >> effects.txt
printf "%s\\n" "$1" > told
printf ok
"""


class Effects:
    """When each effect was there, as the tool itself tells through a pipe."""

    def __init__(self) -> None:
        self._moments: dict[str, float] = {}
        self._arrived = asyncio.Condition()

    async def of(self, marker: str) -> float:
        """Wait for the effect; the moment it was there."""
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(lambda: marker in self._moments)
        return self._moments[marker]

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Read until cancelled."""
        while line := await reader.readline():
            moment = time.perf_counter()
            async with self._arrived:
                self._moments[line.decode().strip()] = moment
                self._arrived.notify_all()


@asynccontextmanager
async def told_by(peer: Peer) -> AsyncIterator[Effects]:
    """Make the peer's tool tell when it has had its effect."""
    (peer.work_dir / TOOL_SCRIPT).write_text(_SCRIPT)
    path = peer.work_dir / "told"
    os.mkfifo(path)
    # Open for writing too: otherwise the pipe would end with the first tool that closes it.
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    happened = Effects()
    task = asyncio.create_task(happened.listen(reader))
    try:
        yield happened
    finally:
        task.cancel()
        transport.close()


async def measure(baseline: Baseline, butler: Butler, count: int, rounds: int) -> Section:
    """Blocks of `count` decisions in turn on both peers, one and eight at once."""
    section = Section("From decision to effect", _NOTE)
    async with told_by(baseline) as base_told, told_by(butler) as told:
        for peer in (baseline, butler):
            await peer.start()
        for peer, happened in ((baseline, base_told), (butler, told)):
            await _block(peer, happened, 4, 2)
        for concurrency in (1, 8):
            base: list[list[float]] = []
            mine: list[list[float]] = []
            for _ in range(rounds):
                base.append(await _block(baseline, base_told, count, concurrency))
                mine.append(await _block(butler, told, count, concurrency))
            section.rows += _rows(base, mine, concurrency)
    return section


def _rows(base: list[list[float]], mine: list[list[float]], concurrency: int) -> list[Row]:
    at = f"{concurrency} at once"
    medians = [[1000 * quantile(block, 0.5) for block in blocks] for blocks in (base, mine)]
    # A block is too small for its own p99: that is taken over all of them.
    late = [1000 * quantile([one for block in blocks for one in block], 0.99) for blocks in (base, mine)]
    decisions = sum(map(len, mine))
    return [
        compare(f"p50, {at}", "ms", medians[0], medians[1], 1.0),
        Row(f"p99 of {decisions} decisions, {at}", late[0], late[1], "ms"),
    ]


async def _block(peer: Peer, happened: Effects, count: int, concurrency: int) -> list[float]:
    markers = [uuid4().hex for _ in range(count)]
    parked: dict[str, Turn] = {}
    seconds: list[float] = []

    async def park(number: int) -> Turn:
        turn = await peer.chat(order(markers[number]))
        if turn.status != "parked":
            raise HarnessError(f"{peer.name} did not park: {turn!r}")
        parked[markers[number]] = turn
        return turn

    async def decide(number: int) -> Turn:
        marker = markers[number]
        turn = parked[marker]
        sent = time.perf_counter()
        answer = asyncio.create_task(_approve(peer, turn))
        seconds.append(await happened.of(marker) - sent)
        await answer
        return turn

    await run_block(peer, park, count, 4)
    await run_block(peer, decide, count, concurrency)
    counted = await asyncio.to_thread(effects, peer.work_dir)
    if wrong := [marker for marker in markers if len(counted.get(marker, [])) != 1]:
        raise HarnessError(f"{peer.name}: {len(wrong)} of {count} effects did not happen exactly once")
    return seconds


async def _approve(peer: Peer, turn: Turn) -> None:
    """Send the approval as a client of that server would, and wait until the turn has ended."""
    if isinstance(peer, Butler):
        response = await peer.client.post(f"/approvals/{turn.actions[0]}", {"decision": "approve"})
        if response.status != 200:
            raise HarnessError(f"decision refused: HTTP {response.status} {response.body[:300]!r}")
        await peer.client.request("GET", f"/runs/{response.json()['run_id']}/events", marker=_END)
    else:
        await peer.approve(turn)
