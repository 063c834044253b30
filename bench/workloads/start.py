"""Cold start: from the spawn to the first answer, and what the process weighs then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bench.peers import Peer
from bench.report import Section
from bench.workloads.chat import compare

_SETTLE = 1.0


@dataclass(frozen=True)
class Start:
    seconds: float
    cpu: float
    rss: float


async def measure(baseline: Peer, butler: Peer, times: int) -> Section:
    """Start each peer `times` times in turn, on the data of its first start; both must be stopped before."""
    section = Section(
        "Cold start",
        f"Process start to the first 200 of `/healthz`, on a database that exists; median of {times}."
        f" Memory is the resident set {_SETTLE:g} s later.",
    )
    for peer in (baseline, butler):
        await _start(peer)
    starts = [(await _start(baseline), await _start(butler)) for _ in range(times)]
    base, mine = [pair[0] for pair in starts], [pair[1] for pair in starts]
    section.rows = [
        compare("time to ready", "s", [s.seconds for s in base], [s.seconds for s in mine], 1.1),
        compare("CPU to ready", "s", [s.cpu for s in base], [s.cpu for s in mine], 1.1),
        compare("memory at rest", "MB", [s.rss for s in base], [s.rss for s in mine], 1.1),
    ]
    return section


async def _start(peer: Peer) -> Start:
    seconds = await peer.start()
    cpu = peer.server.cpu().own
    await asyncio.sleep(_SETTLE)
    rss = peer.server.rss_mb()
    peer.stop()
    return Start(seconds, cpu, rss)
