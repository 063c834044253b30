"""What is seen of a running attempt is in the database while it runs, and nothing late overwrites its end (D9)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from butler.maids import noting as module
from butler.maids.contract import Finished, Launch, Output, Started, ToolUse, Watcher
from butler.maids.noting import noting
from butler.maids.store import Attempt
from config.maid_types import Limits
from tests.support.headless import says
from tests.support.maid_brain import MaidBrain, asking, maid_brain, wants

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")


class News:
    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.count = 0

    def unfinished(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count}


async def until(house: MaidBrain, holds: Any) -> Attempt:
    async with asyncio.timeout(10):
        while True:
            last = (await house.attempts())[-1]
            if holds(last.evidence):
                return last


async def test_output_calls_and_questions_are_written_down_while_the_maid_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.02)
    houses: list[MaidBrain] = []
    found: list[Attempt] = []

    async def works(launch: Launch, watcher: Watcher) -> Finished:
        watcher.event(Started(1, ("the-maid", "x")))
        watcher.event(Output("stdout", "half way, with the secret-value\n"))
        watcher.event(ToolUse("t1", "execute", "make it", "completed"))
        asked = asyncio.ensure_future(watcher.permission(wants(launch)))
        found.append(await until(houses[0], lambda seen: (seen.get("permissions") or [{}])[0].get("action_id")))
        asked.cancel()
        await asyncio.wait({asked})
        (launch.tree / "out.txt").write_text("done\n")
        return Finished(0, claim="did it", awaits_permission=False)

    limits = Limits(permission_wait=20)
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok"), limits=limits) as house:
        houses.append(house)
        await house.brain.say("please")
        seen = found[0].evidence
        assert found[0].status == "running" and found[0].finished_at is None
        assert seen["argv"] == ["the-maid", "x"] and seen["stdout_tail"] == "half way, with the ***\n"
        assert seen["last_calls"] == ["completed: make it"]
        assert [one["answer"] for one in seen["permissions"]] == ["waiting"] and seen["permissions"][0]["action_id"]
        [last] = await house.attempts()
        assert last.status == "passed" and last.evidence["claim"] == "did it" and "last_calls" not in last.evidence
        assert last.evidence["permissions"][0]["answer"] == "cancel"


async def test_an_attempt_that_was_killed_while_it_waited_for_a_person_is_not_spent(tmp_path: Path) -> None:
    limits = Limits(permission_wait=20)
    async with maid_brain(
        tmp_path, [asking()], says("", DELEGATE), says("ok"), on_disk=True, limits=limits
    ) as house:  # fmt: skip
        turn = asyncio.ensure_future(house.brain.say("please"))
        async with asyncio.timeout(10):
            while not await house.brain.pending():
                assert not turn.done()
        turn.cancel()
        await asyncio.wait({turn})
        supervisor = house.brain.faculties.maids
        assert supervisor is not None
        await supervisor.recover()
        await house.brain.go()  # it waits for the verdict before anything is started again
        assert len(house.fake.launches) == 1
        [waiting] = await house.brain.pending()
        await house.brain.decide(waiting, "approve")
        await house.brain.go()
        assert [(one.status, one.spends) for one in await house.attempts()] == [
            ("interrupted", False), ("passed", True),
        ]  # fmt: skip


async def test_news_are_gathered_and_nothing_is_written_after_the_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.02)
    seen, written = News(), []
    wrote = asyncio.Event()

    async def write(what: Any) -> None:
        written.append(what)
        wrote.set()
        if len(written) == 1:
            raise OperationalError("busy", None, Exception("busy"))

    async with noting(seen, write):
        for _ in range(2):
            wrote.clear()
            for _ in range(100):
                seen.news.set()
            await wrote.wait()
    assert len(written) == 2, "one that could not be written does not stop the next"
    seen.news.set()
    await asyncio.sleep(0)
    assert len(written) == 2
