"""One governed tool: chat until it is parked, then approve until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from bench.load import Block, run_block
from bench.peers import Peer, Turn
from bench.process import HarnessError
from bench.report import Row, Section
from bench.tools import effects
from bench.workloads.chat import ChatPlan, compare

_NOTE = (
    "Park: from the message to the answer that names the pending action. Resume: from the approval, over"
    " the tool's run, to a finished reply of 50 tokens. Every effect is counted afterwards: each happened"
    " exactly once."
)


def order(marker: str, *, tool: str = "append_line", before: str = "", after: str = "") -> str:
    """A message that makes the scripted model call the tool once and then answer with 50 tokens."""
    return f'Write it down. {before}[[call {tool} {{"text": "{marker}"}}]][[then]]{after}[[tokens 50]]'


async def measure(baseline: Peer, butler: Peer, plan: ChatPlan) -> Section:
    """Blocks of parks and of resumes in turn on both peers, for each concurrency."""
    section = Section("One governed tool", _NOTE)
    for peer in (baseline, butler):
        await _pair(peer, 4, 2)
    for concurrency, count in plan.turns.items():
        rounds: list[dict[str, tuple[Block, Block]]] = []
        for _ in range(plan.rounds):
            rounds.append({peer.name: await _pair(peer, count, concurrency) for peer in (baseline, butler)})
        section.rows += _rows(rounds, concurrency)
    return section


async def _pair(peer: Peer, count: int, concurrency: int) -> tuple[Block, Block]:
    markers = [uuid4().hex for _ in range(count)]
    parked: list[Turn] = []

    async def park(number: int) -> Turn:
        turn = await peer.chat(order(markers[number]))
        if turn.status != "parked" or len(turn.actions) != 1:
            raise HarnessError(f"{peer.name} did not park: {turn!r}")
        parked.append(turn)
        return turn

    async def resume(number: int) -> Turn:
        turn = await peer.approve(parked[number])
        if turn.status != "done" or not turn.reply:
            raise HarnessError(f"{peer.name} did not finish: {turn!r}")
        return turn

    park_block = await run_block(peer, park, count, concurrency)
    resume_block = await run_block(peer, resume, count, concurrency)
    happened = await asyncio.to_thread(effects, peer.work_dir)
    wrong = [marker for marker in markers if len(happened.get(marker, [])) != 1]
    if wrong:
        raise HarnessError(f"{peer.name}: {len(wrong)} of {count} effects did not happen exactly once")
    return park_block, resume_block


def _rows(rounds: Sequence[dict[str, tuple[Block, Block]]], concurrency: int) -> list[Row]:
    at = f", {concurrency} at once"
    rows: list[Row] = []
    for index, name, target in ((0, "park", 1.0), (1, "resume", 0.6)):
        base = [each["baseline"][index] for each in rounds]
        mine = [each["butler"][index] for each in rounds]
        rows += [
            compare(
                f"{name} p50{at}",
                "ms",
                [b.latency_ms() for b in base],
                [b.latency_ms() for b in mine],
                target,
            ),
            compare(
                f"{name} p95{at}",
                "ms",
                [b.latency_ms(0.95) for b in base],
                [b.latency_ms(0.95) for b in mine],
            ),
            compare(f"{name} CPU{at}", "ms", [b.cpu_ms for b in base], [b.cpu_ms for b in mine]),
        ]
        if index:
            children = ([b.children_ms for b in base], [b.children_ms for b in mine])
            rows.append(compare(f"{name} CPU of the tool's process{at}", "ms", *children))
    return rows
