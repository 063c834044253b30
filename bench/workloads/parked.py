"""Many parked threads: how long a page of approvals and one resume take among them. Butler alone."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from uuid import uuid4

from bench.copying import multiply
from bench.load import quantile, run_block
from bench.peers import Butler, Turn
from bench.process import HarnessError
from bench.report import Row, Section
from bench.workloads.governed import order

_PAGES = 100
_RESUMES = 40
_WARM = 5


@dataclass(frozen=True)
class Probe:
    page_ms: float
    page_p95_ms: float
    second_page_ms: float
    threads_ms: float
    threads_p95_ms: float
    resume_ms: float
    ready_s: float
    rss_mb: float


async def measure(butler: Butler, first: int, many: int) -> Section:
    """Park `first` threads through the API, measure, copy one of them up to `many`, measure again."""
    section = Section(
        f"{many:,} parked threads",
        f"The first {first:,} are parked through the API, the others are copies of one parked thread's"
        " rows. LangGraph has no list of pending interrupts, so there is no baseline: all numbers are"
        " Butler's alone.",
    )
    ready = await butler.start()
    parked: list[Turn] = []

    async def park(_: int) -> Turn:
        turn = await butler.chat(order(uuid4().hex))
        if turn.status != "parked":
            raise HarnessError(f"did not park: {turn!r}")
        parked.append(turn)
        return turn

    await run_block(butler, park, first + _RESUMES + _WARM, 8)
    template = parked[-1].thread_id
    few = await _probe(butler, ready, template)
    butler.stop()
    bytes_before = butler.disk_bytes()
    copies = many - first
    await asyncio.to_thread(multiply, butler.data_dir, template, copies)
    kilobytes = (butler.disk_bytes() - bytes_before) / copies / 1024
    ready = await butler.start()
    lots = await _probe(butler, ready, template)
    butler.stop()
    growth = lots.resume_ms / few.resume_ms
    section.rows = [
        Row(f"page of 50 approvals, {first:,} parked, p50", None, few.page_ms, "ms"),
        Row(
            f"page of 50 approvals, {many:,} parked, p50",
            None,
            lots.page_ms,
            "ms",
            lots.page_ms,
            10.0,
            absolute=True,
        ),
        Row(f"page of 50 approvals, {many:,} parked, p95", None, lots.page_p95_ms, "ms"),
        Row(f"the second page, {many:,} parked, p50", None, lots.second_page_ms, "ms"),
        Row(
            f"page of 50 threads, {many:,} parked, p50",
            None,
            lots.threads_ms,
            "ms",
            lots.threads_ms,
            50.0,
            absolute=True,
        ),
        Row(f"page of 50 threads, {many:,} parked, p95", None, lots.threads_p95_ms, "ms"),
        Row(f"resume one of {first:,}, p50", None, few.resume_ms, "ms"),
        Row(f"resume one of {many:,}, p50", None, lots.resume_ms, "ms"),
        Row(f"resume one of {many:,} over one of {first:,}", None, growth, "", growth, 1.3, absolute=True),
        Row("disk for one parked thread", None, kilobytes, "KB"),
        Row(f"start with {first:,} parked: time to ready", None, few.ready_s, "s"),
        Row(f"start with {many:,} parked: time to ready", None, lots.ready_s, "s"),
        Row(f"memory with {many:,} parked", None, lots.rss_mb, "MB"),
    ]
    return section


async def _probe(butler: Butler, ready: float, spare: str) -> Probe:
    """Time pages and resumes; the thread `spare` stays parked, since it is to be copied."""
    pages: list[float] = []
    second: list[float] = []
    threads: list[float] = []
    items: list[dict[str, str]] = []
    for _ in range(_PAGES):
        response = await butler.client.get("/approvals?status=pending&limit=50")
        body = response.json()
        if response.status != 200 or len(body["items"]) != 50:
            raise HarnessError(f"page of approvals: HTTP {response.status}, {response.body[:300]!r}")
        pages.append(response.seconds)
        items = [item for item in body["items"] if item["thread_id"] != spare]
        cursor = body["next_cursor"]
        second.append((await butler.client.get(f"/approvals?status=pending&limit=50&cursor={cursor}")).seconds)
        listed = await butler.client.get("/threads?limit=50")
        if listed.status != 200 or len(listed.json()["items"]) != 50:
            raise HarnessError(f"page of threads: HTTP {listed.status}, {listed.body[:300]!r}")
        threads.append(listed.seconds)
    resumes: list[float] = []
    chosen = random.Random(1).sample(items, min(_RESUMES + _WARM, len(items)))
    for item in chosen:
        turn = await butler.approve(Turn("parked", item["thread_id"], "", 0.0, None, [item["action_id"]]))
        if turn.status != "done":
            raise HarnessError(f"resume ended as {turn.status!r}")
        resumes.append(turn.seconds)
    return Probe(
        page_ms=1000 * quantile(pages, 0.5),
        page_p95_ms=1000 * quantile(pages, 0.95),
        second_page_ms=1000 * quantile(second, 0.5),
        threads_ms=1000 * quantile(threads, 0.5),
        threads_p95_ms=1000 * quantile(threads, 0.95),
        resume_ms=1000 * quantile(resumes[_WARM:], 0.5),
        ready_s=ready,
        rss_mb=butler.server.rss_mb(),
    )
