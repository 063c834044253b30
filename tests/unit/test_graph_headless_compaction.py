"""Folding inside the graph: after the reply, for the next turn, never across a call that waits (C2, C3, C5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from butler.memory.compaction import CompactionConfig, Compactor
from butler.memory.history import repair
from butler.memory.prompt import SUMMARY_HEAD
from tests.support.headless import Line, open_brain, says
from tests.unit.test_compaction import Summariser

LONG = "the boat lies in the harbour and the wind is fair. " * 4


def folding(*answers: str | BaseException, messages: int = 6, window: int = 2) -> tuple[Compactor, Summariser]:
    model = Summariser(list(answers))
    return Compactor(model, CompactionConfig(10**6, messages, window, 30)), model


async def test_the_turn_after_a_fold_is_asked_with_the_summary_and_the_recent_messages(tmp_path: Path) -> None:
    compactor, model = folding("Ann has a boat.")
    lines: list[Line] = [says(f"{LONG}{number}") for number in range(5)]
    async with open_brain(tmp_path, *lines, compactor=compactor, on_disk=True) as brain:
        for number in range(3):
            state = await brain.say(f"{LONG}question {number}?")
        assert model.asked == [] or len(model.asked) == 1
        assert state["messages"] and not state.get("summary")
        assert await compactor.settle("thread")
        state = await brain.say("and now?")
        assert (state["summary"], state["turn_start"]) == ("Ann has a boat.", 2)
        assert state["last_compacted_at"].endswith("Z")
        request = brain.model.heard[-1]
        assert request[0]["content"].endswith(f"{SUMMARY_HEAD}Ann has a boat.")
        assert [message["role"] for message in request] == ["system", "user", "assistant", "user"]
        assert request[1]["content"].endswith("question 2?")
        assert sum("folded" in data["text"] for data in brain.told("notice")) == 1
        state = await brain.say("still there?")
        assert state["summary"] == "Ann has a boat."
        assert len(brain.told("notice")) == 1


async def test_a_fold_that_failed_leaves_the_turn_as_it_was(tmp_path: Path) -> None:
    compactor, _ = folding(RuntimeError("no summariser"))
    lines: list[Line] = [says(f"{LONG}{number}") for number in range(4)]
    async with open_brain(tmp_path, *lines, compactor=compactor) as brain:
        for number in range(3):
            await brain.say(f"{LONG}question {number}")
        assert not await compactor.settle("thread")
        state = await brain.say("and now?")
        assert state["ending"]["status"] == "done" and not state.get("summary")
        assert len(brain.model.heard[-1]) == 8 and brain.told("notice") == []


async def test_a_parked_call_and_its_message_are_never_folded(tmp_path: Path) -> None:
    compactor, _ = folding("Ann has a boat.", messages=100, window=0)
    lines: list[Line] = [says(LONG), says("", ("gated", {"text": "a"})), says("done"), says("fine")]
    async with open_brain(tmp_path, *lines, compactor=compactor, on_disk=True) as brain:
        await brain.say(f"{LONG}hello")
        state = await brain.say("write a")
        assert compactor.start("thread", state["messages"], "")
        assert await compactor.settle("thread")
        [action] = await brain.pending()
        await brain.decide(action, "approve")
        state = await brain.go()  # the fold waits for the next turn
        assert state["ending"]["reply"] == "done" and not state.get("summary")
        state = await brain.say("and?")
        assert state["summary"] == "Ann has a boat."
        request = brain.model.heard[-1]
        assert [message["role"] for message in request] == ["system", "user", "assistant", "tool", "assistant", "user"]
        assert repair(request) == request and request[1]["content"] == "write a"


async def test_a_fold_never_delays_the_reply(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = Summariser(["Ann has a boat."], gate)
    compactor = Compactor(model, CompactionConfig(10**6, 2, 0, 30))
    lines: list[Line] = [says(LONG), says(LONG), says("quick")]
    async with open_brain(tmp_path, *lines, compactor=compactor) as brain:
        await brain.say(f"{LONG}one")
        await brain.say(f"{LONG}two")
        state = await asyncio.wait_for(brain.say("three"), 20)
        assert state["ending"]["reply"] == "quick" and not gate.is_set()
        await compactor.aclose()


async def test_a_thread_of_commands_alone_is_folded_too(tmp_path: Path) -> None:
    compactor, model = folding("Ann writes notes of the boat.", messages=12)
    async with open_brain(tmp_path, says("Fine."), compactor=compactor) as brain:
        for number in range(3):
            state = await brain.say(f"/free text='the boat lies in harbour {number}'")
            assert state["ending"]["status"] == "done"
        assert await compactor.settle("thread") and len(model.asked) == 1
        assert (await brain.say("and now?"))["summary"] == "Ann writes notes of the boat."
