"""Folding: best effort, whole turns, handed over once, and only over what it really folded (C2, C3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.errors import ModelFailed
from butler.memory.compaction import CompactionConfig, Compactor, cut_index
from butler.memory.extraction import ANSWER_TOKENS, INSTRUCTION, SCHEMA, fold_request
from butler.memory.foldparts import BACK_OFF_SECONDS, FoldCounts
from butler.memory.history import repair
from butler.memory.notes import Notes
from butler.memory.prompt import SYSTEM_PROMPT
from butler.memory.tokens import count_messages, count_tokens
from butler.models.overflow import ContextOverflow, Overflow
from butler.types import ChatMessage, Json

THREAD = "thread"
GOOD = "Ann wants a red boat by Friday."


@dataclass
class Summariser:
    """Answers each hidden call with the next of `answers`; waits for `gate` before that if there is one."""

    answers: list[str | BaseException] = field(default_factory=lambda: [GOOD])
    gate: asyncio.Event | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    endpoint: str = "here"

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: Literal["compaction"],
        timeout: float,  # noqa: ASYNC109 - as in the protocol
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Give the next answer."""
        self.asked.append(
            {
                "messages": list(messages),
                "purpose": purpose,
                "timeout": timeout,
                "max_tokens": max_tokens,
                "schema": schema,
            }
        )
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def config(**more: int) -> CompactionConfig:
    return CompactionConfig(
        **{"trigger_tokens": 1000, "trigger_messages": 20, "recent_window": 4, "timeout": 30, **more}
    )


def compactor(
    *answers: str | BaseException, gate: asyncio.Event | None = None, **more: int
) -> tuple[Compactor, Summariser]:
    model = Summariser(list(answers) or [GOOD], gate)
    return Compactor(model, config(**more)), model


def talk(turns: int, first: int = 0) -> list[Json]:
    """Turns of two messages each."""
    return [
        message
        for number in range(first, first + turns)
        for message in (
            {"role": "user", "content": f"question {number}: " + "what about the boat and the harbour? " * 3},
            {"role": "assistant", "content": f"answer {number}: " + "the boat lies in the harbour. " * 3},
        )
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the back-off; a test moves it."""
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def test_it_is_due_over_either_threshold_and_only_when_there_is_something_to_fold() -> None:
    subject, _ = compactor()
    assert not subject.due(talk(9), 999)
    assert subject.due(talk(10), 0)
    assert subject.due(talk(3), 1000)
    assert not subject.due(talk(1), 100_000)  # all of it is the recent window
    assert not subject.due([], 100_000)
    small, _ = compactor(request_tokens=1200)
    assert small.due(talk(3), 600) and not small.due(talk(3), 599)  # half of what the model takes


async def test_a_fold_is_made_of_the_oldest_turns_and_handed_over_once() -> None:
    subject, model = compactor()
    history = talk(6)
    assert subject.start(THREAD, history, "")
    assert await subject.settle(THREAD)
    folded = subject.take(THREAD, history)
    assert folded is not None
    assert (folded.summary, folded.remaining) == (GOOD, history[8:])
    assert "8 older messages" in folded.notice and "search_history" in folded.notice
    assert folded.notes[0]["text"] == GOOD and folded.at.endswith("Z")
    assert subject.take(THREAD, history) is None
    assert len(model.asked) == 1 and model.asked[0]["purpose"] == "compaction"
    assert model.asked[0]["timeout"] == 30 and model.asked[0]["max_tokens"] == ANSWER_TOKENS
    assert model.asked[0]["schema"] == SCHEMA


async def test_what_was_said_meanwhile_stays_verbatim() -> None:
    subject, _ = compactor()
    history = talk(6)
    subject.start(THREAD, history, "")
    await subject.settle(THREAD)
    grown = [*history, *talk(3, 6)]
    folded = subject.take(THREAD, grown)
    assert folded is not None and folded.remaining == grown[8:]


@pytest.mark.parametrize("change", ["altered", "shorter", "folded already"])
async def test_a_fold_of_something_else_than_the_history_is_dropped(change: str) -> None:
    subject, _ = compactor()
    history = talk(6)
    subject.start(THREAD, history, "")
    await subject.settle(THREAD)
    other = [dict(message) for message in history]
    if change == "altered":
        other[3]["content"] = "something else"
    else:
        other = other[:5] if change == "shorter" else other[8:]
    assert subject.take(THREAD, other) is None
    assert subject.take(THREAD, history) is None  # gone for good


async def test_threads_are_folded_apart() -> None:
    subject, _ = compactor("One is about boats.", "Two is about trains.")
    histories = {"one": talk(6), "two": talk(6, 50)}
    for thread, history in histories.items():
        assert subject.start(thread, history, "")
    assert await subject.settle("one") and await subject.settle("two")
    assert subject.take("two", histories["one"]) is None
    folded = subject.take("one", histories["one"])
    assert folded is not None and folded.summary == "One is about boats."


async def test_nobody_waits_for_a_fold_and_a_second_one_doesnt_start() -> None:
    gate = asyncio.Event()
    subject, model = compactor(GOOD, gate=gate)
    history = talk(6)
    assert subject.start(THREAD, history, "")
    assert not subject.start(THREAD, history, "")
    assert subject.take(THREAD, history) is None  # not ready: the talk goes on as it is
    gate.set()
    assert await subject.settle(THREAD)
    assert not subject.start(THREAD, history, "")  # one is ready to be taken
    assert subject.take(THREAD, history) is not None
    assert len(model.asked) == 1


def test_nothing_to_fold_starts_nothing() -> None:
    subject, model = compactor()
    assert not subject.start(THREAD, talk(2), "")
    assert model.asked == []


BAD_ANSWERS = {
    "empty": "", "white space": " \n\t ", "longer": "the boat lies in the harbour. " * 400,
    "as long": "\n".join(message["content"] for message in talk(4)), "apology": "I'm sorry, I can't help with that.",
    "error": "Error: upstream gave 500", "Chinese apology": "抱歉,我不能。", "Japanese apology": "申し訳ありません。",
    "failure": ModelFailed("It is down."), "time-out": TimeoutError(), "surprise": RuntimeError("surprise"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_a_fold_that_went_wrong_changes_nothing_and_backs_off(
    bad: str | BaseException, clock: list[float]
) -> None:
    subject, model = compactor(bad, GOOD)
    history = talk(6)
    assert subject.start(THREAD, history, "")
    assert not await subject.settle(THREAD)
    assert subject.take(THREAD, history) is None
    assert not subject.start(THREAD, history, "")
    clock[0] += BACK_OFF_SECONDS - 1
    assert not subject.start(THREAD, history, "")
    clock[0] += 2
    assert subject.start(THREAD, history, "")
    assert await subject.settle(THREAD) and len(model.asked) == 2
    folded = subject.take(THREAD, history)
    assert folded is not None and folded.summary == GOOD


async def test_the_back_off_grows_to_an_hour_and_a_success_ends_it(clock: list[float]) -> None:
    subject, _ = compactor(*[""] * 9, GOOD, "", GOOD)
    history = talk(6)
    waits: list[float] = []
    assert subject.start(THREAD, history, "")
    for _ in range(9):
        await subject.settle(THREAD)
        began = clock[0]
        while not subject.start(THREAD, history, ""):
            clock[0] += BACK_OFF_SECONDS
        waits.append(clock[0] - began)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert await subject.settle(THREAD) and subject.take(THREAD, history) is not None
    assert subject.start(THREAD, history, "")
    await subject.settle(THREAD)
    clock[0] += BACK_OFF_SECONDS
    assert subject.start(THREAD, history, "")
    await subject.aclose()


async def test_a_request_that_was_too_long_is_made_shorter_the_next_time(clock: list[float]) -> None:
    subject, model = compactor(ContextOverflow("Too long.", Overflow(8000, 4000)), GOOD)
    history = talk(40)
    assert subject.start(THREAD, history, "") and not await subject.settle(THREAD)
    clock[0] += BACK_OFF_SECONDS + 1
    assert subject.start(THREAD, history, "") and await subject.settle(THREAD)
    first, second = (count_messages(asked["messages"]) for asked in model.asked)
    assert second < first * 0.7
    folded = subject.take(THREAD, history)
    assert folded is not None and len(folded.remaining) > 4


async def test_the_back_off_is_the_threads_own(clock: list[float]) -> None:
    subject, _ = compactor("", GOOD)
    subject.start("one", talk(6), "")
    await subject.settle("one")
    assert not subject.start("one", talk(6), "")
    assert subject.start("two", talk(6), "")
    await subject.aclose()


async def test_a_deleted_thread_is_forgotten_whatever_its_fold_did() -> None:
    gate = asyncio.Event()
    subject, _ = compactor(GOOD, GOOD, gate=gate)
    history = talk(6)
    subject.start("under way", history, "")
    subject.forget("under way")
    gate.set()
    assert not await subject.settle("under way")
    subject.start("ready", history, "")
    await subject.settle("ready")
    subject.forget("ready")
    assert subject.take("ready", history) is None
    subject.forget("never known")


async def test_closing_stops_what_is_under_way() -> None:
    subject, _ = compactor(gate=asyncio.Event())
    subject.start(THREAD, talk(6), "")
    await asyncio.wait_for(subject.aclose(), 30)
    assert not await subject.settle(THREAD)


async def test_the_summary_so_far_goes_into_the_next() -> None:
    subject, model = compactor()
    subject.start(THREAD, talk(6), "Ann has a boat.")
    await subject.settle(THREAD)
    system, *example, user = model.asked[0]["messages"]
    assert system == {"role": "system", "content": INSTRUCTION}
    assert [message["role"] for message in example] == ["user", "assistant"]
    assert user["content"].startswith("Summary so far:\nAnn has a boat.\n\nTalk:\n[1] user: question 0")
    assert "question 3" in user["content"] and "question 4" not in user["content"]


def test_calls_and_results_are_told_to_the_summariser() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    request = fold_request(
        [
            {"role": "user", "content": "look"}, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "waves"},
        ],
        Notes(),
    )  # fmt: skip
    assert (
        request[-1]["content"] == 'Talk:\n[1] user: look\n[2] assistant:  [calls look {"at": "sea"}]\n[3] tool: waves'
    )


def test_an_unfinished_call_and_what_follows_it_is_never_folded() -> None:
    call = {"id": "open", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [
        *talk(2),
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    assert cut_index([*history, *talk(9, 3)], 4) == 4
    done = [*history, {"role": "tool", "tool_call_id": "open", "content": "waves"}]
    assert cut_index([*done, *talk(9, 3)], 4) == len(done) + 14


async def test_the_pinned_rules_are_in_no_fold_and_the_last_message_stays_word_for_word() -> None:
    subject, model = compactor(recent_window=0)
    history = talk(6)
    assert subject.start(THREAD, history, "")
    assert await subject.settle(THREAD)
    folded = subject.take(THREAD, history)
    assert folded is not None and folded.remaining == history[-2:]
    assert not any(SYSTEM_PROMPT in str(message) for message in model.asked[0]["messages"])


CONTENT = st.text(st.sampled_from("ab 船.\n"), min_size=1, max_size=30)


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """Sound histories: turns with any number of rounds, each call with its result."""
    messages: list[Json] = []
    counter = 0
    for _ in range(draw(st.integers(0, 8))):
        messages.append({"role": "user", "content": draw(CONTENT)})
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"c{counter + number}" for number in range(draw(st.integers(1, 3)))]
            counter += len(ids)
            calls = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": one, "content": draw(CONTENT)} for one in ids]
        if draw(st.booleans()):
            messages.append({"role": "assistant", "content": draw(CONTENT)})
    return messages


def sound(messages: Sequence[Json]) -> bool:
    given = [
        dict(message)
        for message in messages
        if message["role"] == "tool" or "tool_calls" in message or message["content"].strip()
    ]
    return [dict(message) for message in repair(given)] == given


@settings(deadline=None)
@given(histories(), st.integers(0, 12))
def test_a_cut_parts_no_call_from_its_result_and_keeps_the_window_and_the_last_message(
    messages: list[Json], window: int
) -> None:
    cut = cut_index(messages, window)
    assert 0 <= cut <= max(0, len(messages) - window)
    if cut:
        assert messages[cut]["role"] == "user"
        assert any(message["role"] == "user" for message in messages[cut:])
        assert sound(messages[:cut]) and sound(messages[cut:])
        later = [index for index in range(cut + 1, len(messages) - window + 1) if index < len(messages)]
        assert all(messages[index]["role"] != "user" for index in later)  # as much as whole turns allow


@settings(deadline=None)
@given(histories(), st.integers(0, 6), st.text(st.sampled_from("ab c船."), max_size=400))
def test_whatever_the_model_says_a_fold_keeps_the_rest_and_never_grows_the_context(
    messages: list[Json], window: int, answer: str
) -> None:
    async def play() -> None:
        subject, _ = compactor(answer, recent_window=window)
        started = subject.start(THREAD, messages, "")
        assert started == (cut_index(messages, window) > 0)
        await subject.settle(THREAD)
        folded = subject.take(THREAD, messages)
        if folded is not None:
            assert messages[len(messages) - len(folded.remaining) :] == folded.remaining
            before, after = count_messages(messages), count_messages(folded.remaining) + count_tokens(folded.summary)
            assert after < before
            assert folded.summary.strip() == folded.summary != ""

    asyncio.run(play())


def test_the_counts_are_told_in_one_line() -> None:
    counts = FoldCounts()
    assert str(counts) == "0 folds done, 0 skipped"
    counts.folded, counts.gave_way = 3, 1
    counts.refused.update(timeout=2, empty=1)
    assert str(counts) == "3 folds done, 3 skipped (2 timeout, 1 empty), 1 put off for a turn"
