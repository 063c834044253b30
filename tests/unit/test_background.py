"""Work beside the requests: a fault ends it for a moment, never for good, and is told while it lasts (F3)."""

from __future__ import annotations

import asyncio

from service.background import Background
from tests.support.polling import wait_until


async def test_work_that_failed_is_begun_again_and_named_until_it_goes_on() -> None:
    background, begun, steady = Background(first=0.1, longest=0.1), 0, asyncio.Event()
    named: list[dict[str, str]] = []

    async def work() -> None:
        nonlocal begun
        named.append(background.faults())
        begun += 1
        if begun < 4:
            raise RuntimeError(f"fault {begun}")
        steady.set()
        await asyncio.Event().wait()

    background.start("clock", work)
    await asyncio.wait_for(steady.wait(), 30)
    assert begun == 4
    assert named[0] == {} and named[1] == {"clock": "RuntimeError: fault 1"}
    await asyncio.to_thread(wait_until, lambda: not background.faults(), "the fault is over")
    await background.stop()


async def test_work_that_is_done_stays_done() -> None:
    background, begun, done = Background(first=0.01), 0, asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        done.set()

    background.start("warm-up", work)
    await asyncio.wait_for(done.wait(), 30)
    await asyncio.sleep(0.03)
    await background.stop()
    assert (begun, background.faults()) == (1, {})
