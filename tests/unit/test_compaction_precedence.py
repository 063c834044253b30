"""A turn that waits for the model goes before the folds at the same endpoint (C3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from butler.memory import compaction
from butler.memory.compaction import CompactionConfig, Compactor
from butler.types import ChatMessage, Json, ModelReply
from tests.support.headless import SpokenModel, open_brain, says

GOOD = "Ann wants a red boat by Friday."
TALK: list[Json] = [
    {"role": role, "content": f"{role} {number} says something of some length about boats"}
    for number in range(6)
    for role in ("user", "assistant")
]


class OneSlot(SpokenModel):
    """A server that takes one request at a time: a fold under way holds up every turn."""

    def __init__(self, *lines: ModelReply) -> None:
        super().__init__(list(lines), endpoint="slow")
        self.slot = asyncio.Lock()
        self.open = asyncio.Event()
        self.folding = asyncio.Event()
        self.given_up = 0

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: Literal["compaction"],
        timeout: float,  # noqa: ASYNC109 - as in the protocol
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Summarise once the test lets it."""
        async with self.slot:
            self.folding.set()
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
            finally:
                self.folding.clear()
            return GOOD

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Json],
        on_text: Callable[[str], None],
        on_notice: Callable[[str], None] | None = None,
    ) -> ModelReply:
        """Answer once the slot is free."""
        async with self.slot:
            return await super().stream(messages, tools, on_text, on_notice)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PATIENCE_SECONDS", 0.0)


def compactor(model: OneSlot) -> Compactor:
    return Compactor(model, CompactionConfig(trigger_tokens=10**6, trigger_messages=6, recent_window=2, timeout=30))


async def under_way(subject: Compactor, model: OneSlot) -> None:
    """Begin a fold and see it hold the slot."""
    assert subject.start("one", TALK, "")
    await asyncio.wait_for(model.folding.wait(), 30)


async def gave_way(model: OneSlot, subject: Compactor, endpoint: str = "slow", answered: bool = False) -> bool:
    """Let a turn wait longer than its patience, or be `answered` at once; say whether the fold gave way."""
    before = model.given_up
    with subject.behind(endpoint) as end_wait:
        if answered:
            end_wait()
        for _ in range(10):
            await asyncio.sleep(0)
    return model.given_up > before


async def test_a_fold_under_way_gives_way_to_a_turn_and_begins_again_after_it(tmp_path: Path) -> None:
    model = OneSlot(says("one"), says("two"), says("three"), says("four"))
    subject = compactor(model)
    async with open_brain(tmp_path, compactor=subject) as brain:
        object.__setattr__(brain.faculties, "model", model)
        for message in ("a", "b", "c"):
            await brain.say(message * 200)
        await asyncio.wait_for(model.folding.wait(), 30)  # begun after the third answer
        state = await asyncio.wait_for(brain.say("d"), 30)
        assert state["ending"]["reply"] == "four" and len(state["messages"]) == 8
        await asyncio.wait_for(model.folding.wait(), 30)  # begun again, without any back-off
        assert model.given_up == 1
        model.open.set()
        assert await subject.settle("thread")
        folded = subject.take("thread", state["messages"])
        assert folded is not None and folded.summary == GOOD


async def test_a_turn_of_another_endpoint_disturbs_no_fold() -> None:
    model = OneSlot()
    subject = compactor(model)
    await under_way(subject, model)
    assert not await gave_way(model, subject, "elsewhere")
    await subject.aclose()


async def test_a_turn_that_is_answered_soon_disturbs_no_fold() -> None:
    model = OneSlot()
    subject = compactor(model)
    await under_way(subject, model)
    assert not await gave_way(model, subject, answered=True)
    await subject.aclose()


async def test_a_fold_that_gave_way_three_times_gets_more_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OneSlot()
    subject = compactor(model)
    for _ in range(3):
        await under_way(subject, model)
        assert await gave_way(model, subject)
    await under_way(subject, model)
    assert not await gave_way(model, subject)
    monkeypatch.setattr(compaction, "LONG_PATIENCE_SECONDS", 0.0)
    assert await gave_way(model, subject)


async def test_a_fold_that_gave_way_to_short_and_to_long_waits_runs_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OneSlot()
    subject = compactor(model)
    for times in range(compaction.MOST_WAYS_GIVEN):
        if times == compaction.WAYS_GIVEN:
            monkeypatch.setattr(compaction, "LONG_PATIENCE_SECONDS", 0.0)
        await under_way(subject, model)
        assert await gave_way(model, subject)
    await under_way(subject, model)
    for _ in range(3):
        assert not await gave_way(model, subject)
    model.open.set()
    assert await subject.settle("one")


async def test_a_fold_that_came_to_its_end_begins_to_give_way_anew() -> None:
    model = OneSlot()
    subject = compactor(model)
    for _ in range(3):
        await under_way(subject, model)
        assert await gave_way(model, subject)
    await under_way(subject, model)
    model.open.set()
    assert await subject.settle("one") and subject.take("one", TALK) is not None
    model.open.clear()
    await under_way(subject, model)
    assert await gave_way(model, subject)


async def test_a_fold_that_a_person_asked_for_does_not_give_way() -> None:
    model = OneSlot()
    subject = compactor(model)
    await under_way(subject, model)
    asking = asyncio.create_task(subject.settle("one"))
    await asyncio.sleep(0)
    assert not await gave_way(model, subject)
    model.open.set()
    assert await asking
