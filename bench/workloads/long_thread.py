"""One thread of many turns: does the 500th cost what the 10th did, in time and on disk?"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.load import median
from bench.peers import Peer, Turn
from bench.process import HarnessError
from bench.report import Row, Section

_WORDS = (
    *("harbour", "ticket", "lantern", "cellar", "invoice", "walnut", "garden", "letter", "railway", "copper"),
    *("winter", "market", "candle", "bridge", "doctor", "violin", "pepper", "window", "anchor", "ribbon"),
    *("saddle", "planet", "kettle", "forest", "mirror", "basket", "engine", "velvet", "island", "summer"),
)
_CHUNK = 25
_WINDOW = 11
_AGE = 50
# From one fold to the next: a context is largest just before one, so two threads are compared over a whole round.
_ROUND = 26
_YOUNG = _AGE - _ROUND // 2
_GROWTH_TURNS = _YOUNG + 2 * _ROUND


async def measure(baseline: Peer, butler: Peer, turns: int) -> Section:
    """Talk so many turns in one thread with each peer, in alternating chunks; stops both servers."""
    section = Section(
        f"One thread of {turns} turns",
        "About 200 tokens each way; both fold older messages at 12,000 tokens or 60 messages and keep 8."
        f" Latencies are medians of {_WINDOW} turns. The disk row counts every file of the data directory"
        " after a clean stop, the bytes of the turns are pages in use; both with the search index brought up to date.",
    )
    peers = (baseline, butler)
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    cpu = {peer.name: 0.0 for peer in peers}
    threads: dict[str, str | None] = {peer.name: None for peer in peers}
    span = min(100, (turns - _AGE) // 2)
    used: dict[tuple[str, int], int] = {}
    for start in range(0, turns, _CHUNK):
        for peer in peers:
            if start in (_AGE, _AGE + span, turns - span):
                used[peer.name, start] = await _used(peer)
            before = peer.server.cpu()
            for number in range(start, min(start + _CHUNK, turns)):
                turn = await _say(peer, number, threads[peer.name])
                threads[peer.name] = turn.thread_id
                seconds[peer.name].append(turn.seconds)
            cpu[peer.name] += (peer.server.cpu() - before).own
    for peer in peers:
        used[peer.name, turns] = await _used(peer)
    early = {peer.name: used[peer.name, _AGE + span] - used[peer.name, _AGE] for peer in peers}
    late = {peer.name: used[peer.name, turns] - used[peer.name, turns - span] for peer in peers}
    growth = {peer.name: await _growth(peer, turns, str(threads[peer.name])) for peer in peers}
    rss = {peer.name: peer.server.rss_mb() for peer in peers}
    for peer in peers:
        await peer.settle()
        peer.stop()
    kilobytes = {peer.name: peer.disk_bytes() / (turns + _GROWTH_TURNS) / 1024 for peer in peers}
    points = [*(point for point in (10, 50, 100, 250) if point < turns), turns]
    section.rows = [
        Row(f"latency at turn {point}", _at(seconds["baseline"], point), _at(seconds["butler"], point), "ms")
        for point in points
    ]
    section.rows += [
        Row(
            f"turn {turns} over turn {_AGE} of a young thread, in turn",
            growth["baseline"],
            growth["butler"],
            "",
            growth["butler"],
            1.2,
            absolute=True,
        ),
        Row(
            f"bytes of the last {span} turns over those after turn {_AGE}",
            late["baseline"] / early["baseline"],
            late["butler"] / early["butler"],
            "",
            late["butler"] / early["butler"],
            1.2,
            absolute=True,
        ),
        Row("CPU a turn, over all", 1000 * cpu["baseline"] / turns, 1000 * cpu["butler"] / turns, "ms"),
        Row(
            f"disk a turn at turn {turns}",
            kilobytes[baseline.name],
            kilobytes[butler.name],
            "KB",
            kilobytes[butler.name],
            15.0,
            absolute=True,
        ),
        Row("memory afterwards", rss[baseline.name], rss[butler.name], "MB"),
    ]
    return section


async def _used(peer: Peer) -> int:
    await peer.settle()
    return peer.used_bytes()


async def _growth(peer: Peer, turns: int, old: str) -> float:
    """The latency of the old thread over that of a young one, one turn each in turn, so that noise hits both."""
    young = (await _say(peer, 0, None)).thread_id
    for number in range(1, _YOUNG):
        await _say(peer, number, young)
    late: list[float] = []
    early: list[float] = []
    for number in range(_ROUND):
        late.append((await _say(peer, turns + number, old)).seconds)
        early.append((await _say(peer, _YOUNG + number, young)).seconds)
    return median(late) / median(early)


async def _say(peer: Peer, number: int, thread_id: str | None) -> Turn:
    words = random.Random(number).choices(_WORDS, k=140)
    turn = await peer.chat(f"Turn {number}: {' '.join(words)} [[tokens 200]]", thread_id)
    if turn.status != "done":
        raise HarnessError(f"{peer.name}: turn {number} ended as {turn.status!r}")
    return turn


def _at(seconds: Sequence[float], turn: int) -> float:
    """Milliseconds around that turn; the last ones where it is the end."""
    first = max(0, min(turn - 1 - _WINDOW // 2, len(seconds) - _WINDOW))
    return 1000 * median(seconds[first : first + _WINDOW])
