"""One thread of many turns: does the 500th cost what the 10th did, in time and on disk?"""

from __future__ import annotations

from collections.abc import Sequence

from bench.load import median
from bench.peers import Peer
from bench.report import Row, Section
from bench.workloads.ageing import AGE, EXTRA_TURNS, ROUND, ROUNDS, Ages, Side, compare, say

_CHUNK = 25
_WINDOW = 11


async def measure(baseline: Peer, butler: Peer, turns: int) -> Section:
    """Talk so many turns in one thread with each peer, in alternating chunks; stops both servers."""
    section = Section(
        f"One thread of {turns} turns",
        "About 200 tokens each way; both fold older messages at 12,000 tokens or 60 messages and keep 8. Latencies at"
        f" turn N are medians of {_WINDOW} turns. *Turn {turns} over turn {AGE}*: the old thread and young ones (turns"
        f" {AGE - ROUND // 2} to {AGE + ROUND // 2}) take turns in one run, {ROUNDS * ROUND} turns each, over whole"
        " rounds from fold to fold, each turn from a quiet server to a quiet server. The disk row counts every file of"
        " the data directory after a clean stop, the bytes of the turns are pages in use; both with the search index"
        " brought up to date.",
    )
    peers = (baseline, butler)
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    cpu = {peer.name: 0.0 for peer in peers}
    threads: dict[str, str | None] = {peer.name: None for peer in peers}
    span = min(100, (turns - AGE) // 2)
    used: dict[tuple[str, int], int] = {}
    for start in range(0, turns, _CHUNK):
        for peer in peers:
            if start in (AGE, AGE + span, turns - span):
                used[peer.name, start] = await _used(peer)
            before = peer.server.cpu()
            for number in range(start, min(start + _CHUNK, turns)):
                turn = await say(peer, number, threads[peer.name])
                threads[peer.name] = turn.thread_id
                seconds[peer.name].append(turn.seconds)
            cpu[peer.name] += (peer.server.cpu() - before).own
    for peer in peers:
        used[peer.name, turns] = await _used(peer)
    early = {peer.name: used[peer.name, AGE + span] - used[peer.name, AGE] for peer in peers}
    late = {peer.name: used[peer.name, turns] - used[peer.name, turns - span] for peer in peers}
    ages = {peer.name: await compare(peer, turns, str(threads[peer.name])) for peer in peers}
    rss = {peer.name: peer.server.rss_mb() for peer in peers}
    for peer in peers:
        await peer.settle()
        peer.stop()
    kilobytes = {peer.name: peer.disk_bytes() / (turns + EXTRA_TURNS) / 1024 for peer in peers}
    points = [*(point for point in (10, 50, 100, 250) if point < turns), turns]
    section.rows = [
        Row(f"latency at turn {point}", _at(seconds["baseline"], point), _at(seconds["butler"], point), "ms")
        for point in points
    ]
    section.rows += [
        *_growth(turns, ages["baseline"], ages["butler"]),
        Row(
            f"bytes of the last {span} turns over those after turn {AGE}",
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


def _growth(turns: int, baseline: Ages, butler: Ages) -> list[Row]:
    """What a turn takes at turn 50, and how many times that at the end."""
    rows: list[Row] = []
    whats = (
        ("latency p50", Side.latency, 1.2),
        ("CPU with what follows the answer", Side.cpu_a_turn, 1.2),
        ("CPU of the turn that folds", Side.dearest, None),
    )
    for what, measure_of, target in whats:
        rows.append(
            Row(f"{what}, turn {AGE}", 1000 * measure_of(baseline.young), 1000 * measure_of(butler.young), "ms")
        )
        theirs, ours = (measure_of(ages.old) / measure_of(ages.young) for ages in (baseline, butler))
        rows.append(Row(f"{what}, turn {turns} over turn {AGE}", theirs, ours, "", ours, target, absolute=True))
    return rows


async def _used(peer: Peer) -> int:
    await peer.settle()
    return peer.used_bytes()


def _at(seconds: Sequence[float], turn: int) -> float:
    """Milliseconds around that turn; the last ones where it is the end."""
    first = max(0, min(turn - 1 - _WINDOW // 2, len(seconds) - _WINDOW))
    return 1000 * median(seconds[first : first + _WINDOW])
