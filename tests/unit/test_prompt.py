"""One request to the model: stable head, sound pairs, fits, and keeps what was just said (C2, C3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.memory.history import NO_RESULT, repair
from butler.memory.prompt import REPLY_SHARE, SUMMARY_HEAD, SYSTEM_PROMPT, build_prompt
from butler.memory.tokens import count_messages, count_tokens
from butler.types import Json
from tests.support.history import history_problem
from tests.support.parts import registry, tool

TOOLS = registry(tool("act", "allow"), tool("look", "allow"))
NO_TOOLS = registry()


def turn(number: int, result: str = "waves", answer: str = "fine") -> list[Json]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": '{"text": "sea"}'}}
    return [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        {"role": "assistant", "content": answer},
    ]


def size(messages: list[Json], tools: Any = TOOLS) -> int:
    """What the request costs, tools and system prompt included."""
    return count_messages(messages) + count_tokens(tools.schema_text)


def test_a_short_talk_goes_whole() -> None:
    history = [*turn(1), {"role": "user", "content": "now"}]
    prompt = build_prompt(history, summary="", tools=TOOLS, limit=100_000)
    assert prompt.messages == [{"role": "system", "content": SYSTEM_PROMPT}, *history]
    assert prompt.notice is None


def test_the_head_is_the_same_bytes_in_every_request() -> None:
    one = build_prompt(turn(1), summary="Ann has a boat.", tools=TOOLS, limit=100_000)
    other = build_prompt([*turn(1), *turn(2)], summary="Ann has a boat.", tools=TOOLS, limit=100_000)
    assert one.messages[0] == other.messages[0]
    assert one.messages[0]["content"] == f"{SYSTEM_PROMPT}{SUMMARY_HEAD}Ann has a boat."
    assert other.messages[: len(one.messages)] == one.messages


def test_a_broken_history_is_repaired_and_the_stored_one_is_left_alone() -> None:
    history = [*turn(1)[:2], {"role": "user", "content": "and?"}, {"role": "tool", "tool_call_id": "x", "content": "?"}]
    before = [dict(message) for message in history]
    prompt = build_prompt(history, summary="", tools=TOOLS, limit=100_000)
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "tool", "user"]
    assert prompt.messages[3]["content"] == NO_RESULT
    assert history == before


def test_a_talk_that_no_longer_fits_loses_its_oldest_turns_and_says_so() -> None:
    history = [message for number in range(100) for message in turn(number, answer="the boat lies there. " * 20)]
    history.append({"role": "user", "content": "the last question"})
    limit = 4000
    prompt = build_prompt(history, summary="Ann has a boat.", tools=TOOLS, limit=limit)
    kept = len(prompt.messages) - 1
    assert 0 < kept < len(history)
    assert prompt.messages[1:] == history[-kept:] and history[-kept]["role"] == "user"
    assert size(prompt.messages) <= limit - limit // REPLY_SHARE
    assert prompt.notice is not None
    assert prompt.notice.startswith(f"{len(history) - kept} older messages were left out of this request")
    assert "nothing is deleted" in prompt.notice
    assert prompt.messages[0]["content"].endswith("Ann has a boat.")
    # Not one turn less than needed.
    more = [prompt.messages[0], *history[-kept - 4 :]]
    assert size(more) > limit - limit // REPLY_SHARE


def test_one_text_that_is_too_long_is_shortened_and_that_is_said() -> None:
    history = turn(1, result="waves and waves. " * 5000)[:3]  # the turn is still going on
    prompt = build_prompt(history, summary="", tools=TOOLS, limit=4000)
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "tool"]
    assert "characters left out; search_history" in prompt.messages[3]["content"]
    assert prompt.messages[1] == history[0]
    assert size(prompt.messages) <= 3500
    assert prompt.notice is not None and prompt.notice.startswith("Part of a long text was left out")


def test_the_tools_count() -> None:
    wide = registry(
        *(
            tool(f"tool_{number}", schema={"type": "object", "description": "what it is for " * 40})
            for number in range(20)
        )
    )
    history = [message for number in range(20) for message in turn(number, answer="the boat lies there. " * 10)]
    limit = 6000
    with_tools = build_prompt(history, summary="", tools=wide, limit=limit)
    without = build_prompt(history, summary="", tools=NO_TOOLS, limit=limit)
    assert without.notice is None and with_tools.notice is not None
    assert size(with_tools.messages, wide) <= limit - limit // REPLY_SHARE


@pytest.mark.parametrize("letter", ["船", "a", "ж", "🙂", "{"])
def test_the_short_way_never_lets_through_what_the_count_would_not(letter: str) -> None:
    for length in range(100, 4000, 150):
        history = [{"role": "user", "content": letter * length}, {"role": "user", "content": "now"}]
        limit = 1500
        prompt = build_prompt(history, summary="", tools=NO_TOOLS, limit=limit)
        assert size(prompt.messages, NO_TOOLS) <= limit - limit // REPLY_SHARE
        assert prompt.messages[-1]["content"] == "now"
        fits = size([prompt.messages[0], *history], NO_TOOLS) <= limit - limit // REPLY_SHARE
        assert (prompt.notice is None) == fits


WORDS = st.text(st.sampled_from("ab 船🙂{\n"), max_size=200)
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, WORDS),
        st.builds(lambda text: {"role": "assistant", "content": text}, WORDS),
        st.builds(
            lambda text, ids: {
                "role": "assistant", "content": text,
                "tool_calls": [
                    {"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids
                ],
            },
            WORDS, st.lists(st.sampled_from("pqrs"), max_size=3),
        ),
        st.builds(
            lambda one, text: {"role": "tool", "tool_call_id": one, "content": text}, st.sampled_from("pqrs"), WORDS
        ),
    ),
    max_size=25,
)  # fmt: skip


@settings(deadline=None)
@given(MESSAGES, st.text(st.sampled_from("ab 船"), max_size=100), st.integers(1500, 4000))
def test_any_history_gives_a_sound_request_that_fits_and_ends_with_the_last_message(
    messages: list[Json], summary: str, limit: int
) -> None:
    history = [*messages, {"role": "user", "content": "the last question"}]
    prompt = build_prompt(history, summary=summary, tools=TOOLS, limit=limit)
    assert repair(prompt.messages) == prompt.messages
    assert prompt.messages[0]["role"] == "system" and prompt.messages[-1] == history[-1]
    assert size(prompt.messages) <= limit - limit // REPLY_SHARE
    everything = [prompt.messages[0], *repair(history)]
    assert (prompt.notice is None) == (prompt.messages == everything)


LONG_WORDS = st.builds(
    lambda text, times: text * times,
    st.sampled_from(["the boat lies in the harbour. ", "船停在港口里。", "船は港にあります。", '{"a": 1, ', "🙂", "x"]),
    st.sampled_from([1, 3, 40, 900]),
)
BROKEN = st.lists(
    st.one_of(
        st.builds(
            lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), LONG_WORDS
        ),
        st.builds(
            lambda ids, text: {
                "role": "assistant", "content": text,
                "tool_calls": [
                    {"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids
                ],
            },
            st.lists(st.sampled_from(["p", "q", "r", "", None]), max_size=3), st.none() | st.just("") | LONG_WORDS,
        ),
        st.builds(
            lambda one, text, failed: {"role": "tool", "tool_call_id": one, "content": text} | failed,
            st.sampled_from(["p", "q", "r", "z", None]), LONG_WORDS, st.sampled_from([{}, {"failed": True}]),
        ),
        st.just({"role": "assistant", "content": "hi", "shown": "hello"}),
    ),
    max_size=16,
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(BROKEN, LONG_WORDS, st.integers(2500, 6000))
def test_a_broken_history_with_giants_in_any_script_fits_and_keeps_the_last_user_message(
    messages: list[Json], last: str, limit: int
) -> None:
    history = [*messages, {"role": "user", "content": last, "run": "run-9"}]
    prompt = build_prompt(history, summary="Ann has a boat.", tools=TOOLS, limit=limit)
    assert repair(prompt.messages) == prompt.messages
    assert history_problem(prompt.messages) is None
    assert size(prompt.messages) <= limit - limit // REPLY_SHARE
    kept = prompt.messages[-1]
    assert kept["role"] == "user" and "run" not in kept and kept["content"][:100] == last[:100]
    assert kept["content"] == last or (prompt.notice and "characters left out" in kept["content"])
    assert not any("run" in message or "failed" in message for message in prompt.messages)
    assert prompt.messages[0]["content"].startswith(SYSTEM_PROMPT)


def test_the_estimate_counts_the_system_prompt_the_summary_and_the_tools() -> None:
    history = [{"role": "user", "content": "hello " * 400}]
    for summary, tools in (("", NO_TOOLS), ("Ann has a boat. " * 100, NO_TOOLS), ("", TOOLS)):
        head = build_prompt(history, summary=summary, tools=tools, limit=10**6).messages
        need = size(head, tools)
        limit = -(-need * REPLY_SHARE // (REPLY_SHARE - 1)) + 1
        assert build_prompt(history, summary=summary, tools=tools, limit=limit).notice is None
        assert build_prompt(history, summary=summary, tools=tools, limit=limit - 20).notice is not None
