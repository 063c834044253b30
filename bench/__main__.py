"""``python -m bench``: measure Butler beside the baseline and write ``docs/performance.md``.

Exit status 0 whatever the numbers say; a missed target is marked in the page. Only a harness that can't
go on fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import report
from bench.peers import Baseline, Butler, Floor
from bench.process import ROOT, HarnessError, Server, free_port
from bench.report import Section
from bench.workloads import approvals, chat, governed, inbox, kill, long_thread, parked, start
from bench.workloads.chat import ChatPlan

_QUICK = {1: 24, 8: 48, 32: 96}
_FULL = {1: 60, 8: 160, 32: 320}


class Bench:
    """The workloads, each on fresh servers, in one scratch folder."""

    def __init__(self, folder: Path, model_url: str, quick: bool) -> None:
        self._folder = folder
        self._model_url = model_url
        self._quick = quick
        self._plan = ChatPlan(_QUICK, 3) if quick else ChatPlan(_FULL, 5)

    def workloads(self) -> dict[str, Callable[[], Awaitable[Section]]]:
        return {
            "chat": self.chat,
            "stream": self.stream,
            "governed": self.governed,
            "long": self.long_thread,
            "approvals": self.approvals,
            "inbox": self.inbox,
            "parked": self.parked,
            "start": self.start,
            "kill": self.kill,
        }

    async def chat(self) -> Section:
        floor = Floor(self._model_url, self._folder / "chat-floor")
        plain = Baseline(self._model_url, self._folder / "chat-plain", streaming=False)
        baseline, butler = self._pair("chat")
        for peer in (floor, plain, baseline, butler):
            await peer.start()
        try:
            return await chat.measure(floor, baseline, butler, plain, self._plan, stream=False)
        finally:
            for peer in (floor, plain, baseline, butler):
                peer.stop()

    async def stream(self) -> Section:
        floor = Floor(self._model_url, self._folder / "stream-floor")
        baseline, butler = self._pair("stream")
        for peer in (floor, baseline, butler):
            await peer.start()
        try:
            return await chat.measure(floor, baseline, butler, None, self._plan, stream=True)
        finally:
            for peer in (floor, baseline, butler):
                peer.stop()

    async def governed(self) -> Section:
        baseline, butler = self._pair("governed")
        await baseline.start()
        await butler.start()
        try:
            return await governed.measure(baseline, butler, self._plan)
        finally:
            baseline.stop()
            butler.stop()

    async def long_thread(self) -> Section:
        baseline, butler = self._pair("long")
        await baseline.start()
        await butler.start()
        try:
            return await long_thread.measure(baseline, butler, 150 if self._quick else 500)
        finally:
            baseline.stop()
            butler.stop()

    async def approvals(self) -> Section:
        baseline, butler = self._pair("approvals")
        try:
            return await approvals.measure(baseline, butler, 40 if self._quick else 80, self._plan.rounds)
        finally:
            baseline.stop()
            butler.stop()

    async def inbox(self) -> Section:
        butler = Butler(self._model_url, self._folder / "inbox-butler")
        try:
            return await inbox.measure(butler, 2_000 if self._quick else 10_000)
        finally:
            butler.stop()

    async def parked(self) -> Section:
        butler = Butler(self._model_url, self._folder / "parked-butler")
        try:
            return await parked.measure(butler, 200 if self._quick else 1000, 50_000)
        finally:
            butler.stop()

    async def start(self) -> Section:
        baseline, butler = self._pair("start")
        try:
            return await start.measure(baseline, butler, 3 if self._quick else 5)
        finally:
            baseline.stop()
            butler.stop()

    async def kill(self) -> Section:
        baseline, butler = self._pair("kill", slow_tool=True)
        try:
            return await kill.measure(baseline, butler, 60 if self._quick else 200)
        finally:
            baseline.stop()
            butler.stop()

    def _pair(self, name: str, *, slow_tool: bool = False) -> tuple[Baseline, Butler]:
        return (
            Baseline(self._model_url, self._folder / f"{name}-baseline", slow_tool=slow_tool),
            Butler(self._model_url, self._folder / f"{name}-butler", slow_tool=slow_tool),
        )


async def start_model(folder: Path) -> tuple[Server, str]:
    """Start the scripted model; return it with its base URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    arguments = ["-m", "tests.support.scripted_model", "--port", str(port)]
    model = Server(arguments, {}, url, folder / "model.log")
    await model.ready("/v1/models")
    return model, f"{url}/v1"


async def run(only: list[str], quick: bool, page: str | None = None) -> str:
    """Run the workloads named, or all, and return the page; with `page`, that one with new sections in it."""
    began = time.perf_counter()
    sections: list[Section] = []
    with tempfile.TemporaryDirectory(prefix="butler-bench-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        model, url = await start_model(folder)
        try:
            bench = Bench(folder, url, quick)
            for name, workload in bench.workloads().items():
                if not only or name in only:
                    print(f"… {name}", file=sys.stderr, flush=True)
                    sections.append(await workload())
        finally:
            model.stop()
    if page is not None:
        return report.merged(page, sections, quick=quick)
    return report.markdown(sections, quick=quick, seconds=time.perf_counter() - began)


def main() -> int:
    """Read the options, run, print the page and write it to ``docs/performance.md``."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns and rounds")
    names = ("chat", "stream", "governed", "long", "approvals", "inbox", "parked", "start", "kill")
    parser.add_argument("--only", action="append", default=[], choices=names, help="run this workload; repeatable")
    parser.add_argument(
        "--output", type=Path, help="where to write the page; with --only nothing is written unless given, or --merge"
    )
    parser.add_argument(
        "--merge", action="store_true", help="put what was measured into the page that is there, in place of the older"
    )
    options = parser.parse_args()
    output = options.output or (None if options.only and not options.merge else ROOT / "docs" / "performance.md")
    try:
        page = asyncio.run(run(options.only, options.quick, output.read_text() if options.merge and output else None))
    except HarnessError as error:
        print(f"the bench cannot go on: {error}", file=sys.stderr)
        return 1
    print(page)
    if output is not None:
        output.parent.mkdir(exist_ok=True)
        output.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
