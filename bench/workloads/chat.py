"""Chat turns of 50 tokens, whole and streamed, at several concurrencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.load import Block, Operation, median, run_block
from bench.peers import Peer, Turn
from bench.report import Row, Section

_TURNS_PER_THREAD = 10
_TEXT = "Please tell me what is on my list for today. [[tokens 50]]"


@dataclass(frozen=True)
class ChatPlan:
    """How much to do: turns of one block at each concurrency, and how many rounds of blocks."""

    turns: dict[int, int]
    rounds: int


def talk(peer: Peer, *, stream: bool) -> Operation:
    """Turns in threads of ten turns each; a thread has one turn at a time."""
    idle: list[tuple[str, int]] = []

    async def operation(_: int) -> Turn:
        thread_id, used = idle.pop() if idle else (None, 0)
        turn = await peer.chat(_TEXT, thread_id, stream=stream)
        if used + 1 < _TURNS_PER_THREAD:
            idle.append((turn.thread_id, used + 1))
        return turn

    return operation


async def measure(
    floor: Peer, baseline: Peer, butler: Peer, plain: Peer | None, plan: ChatPlan, *, stream: bool
) -> Section:
    """Blocks in turn on the floor, the baseline and Butler, for each concurrency.

    Args:
        plain: a baseline whose model call isn't streamed, to show what its whole answer costs then.
    """
    name = "streamed" if stream else "whole answer"
    section = Section(f"Chat turn of 50 tokens, {name}", _note(stream, plain is not None))
    peers = [peer for peer in (floor, baseline, butler, plain) if peer is not None]
    for peer in peers:
        await run_block(peer, talk(peer, stream=stream), 8, 2)
    for concurrency, count in plan.turns.items():
        rounds: list[dict[str, Block]] = []
        for _ in range(plan.rounds):
            rounds.append({})
            for peer in peers:
                block = await run_block(peer, talk(peer, stream=stream), count, concurrency)
                rounds[-1]["plain" if peer is plain else peer.name] = block
        section.rows += _rows(rounds, concurrency, stream)
    return section


def _note(stream: bool, plain: bool) -> str:
    text = "Threads of ten turns; the number is how many threads talk at once."
    if stream:
        return text + " First token: from the request's first byte to the first `token` event."
    if plain:
        text += (
            " The baseline's model streams, as its chat route needs; *unstreamed* is the baseline with"
            " `streaming=False`, which makes whole answers cheaper."
        )
    return text


def _rows(rounds: Sequence[dict[str, Block]], concurrency: int, stream: bool) -> list[Row]:
    at = f", {concurrency} at once"
    base = [each["baseline"] for each in rounds]
    mine = [each["butler"] for each in rounds]
    floor = [each["floor"] for each in rounds]
    rows = [
        compare("CPU a turn" + at, "ms", [b.cpu_ms for b in base], [b.cpu_ms for b in mine], 0.65),
        compare(
            "turns a second" + at,
            "",
            [b.per_second for b in base],
            [b.per_second for b in mine],
            1.6,
            least=True,
        ),
        compare(
            "added latency p50" + at,
            "ms",
            [b.latency_ms() - f.latency_ms() for b, f in zip(base, floor, strict=True)],
            [b.latency_ms() - f.latency_ms() for b, f in zip(mine, floor, strict=True)],
            0.6,
        ),
        compare("latency p95" + at, "ms", [b.latency_ms(0.95) for b in base], [b.latency_ms(0.95) for b in mine]),
        Row("floor p50" + at, median([b.latency_ms() for b in floor]), None, "ms"),
    ]
    if stream:
        rows.append(
            compare(
                "first token, added" + at,
                "ms",
                [b.first_token_ms() - f.first_token_ms() for b, f in zip(base, floor, strict=True)],
                [b.first_token_ms() - f.first_token_ms() for b, f in zip(mine, floor, strict=True)],
                1.0,
            )
        )
    if plain := [each["plain"] for each in rounds if "plain" in each]:
        rows += [
            compare(
                "CPU a turn, unstreamed baseline" + at,
                "ms",
                [b.cpu_ms for b in plain],
                [b.cpu_ms for b in mine],
            ),
            compare(
                "turns a second, unstreamed baseline" + at,
                "",
                [b.per_second for b in plain],
                [b.per_second for b in mine],
            ),
        ]
    return rows


def compare(
    what: str,
    unit: str,
    base: Sequence[float],
    mine: Sequence[float],
    target: float | None = None,
    *,
    least: bool = False,
) -> Row:
    """A row whose ratio is the median of the rounds' ratios."""
    ratio = median([m / max(b, 1e-6) for b, m in zip(base, mine, strict=True)])
    return Row(what, median(base), median(mine), unit, ratio, target, "at least" if least else "at most")
