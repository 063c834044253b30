"""A history is fitted by whole turns, then by shorter texts; what matters now always stays."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.memory.history import repair
from butler.memory.tokens import count_tools
from butler.memory.trim import FLOOR_CHARS, count_messages, count_tokens, fit, pointer

Json = dict[str, Any]
POINTER_CHARS = 190


def turn(name: str, result: str = "fine", answer: str = "done") -> list[Json]:
    call = {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"question {name}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": result},
        {"role": "assistant", "content": answer},
    ]


def test_what_fits_is_left_alone() -> None:
    history = turn("a")
    assert fit(history, budget_tokens=1000, tools_tokens=0) == (history, 0)


def test_the_oldest_turns_go_whole() -> None:
    history = [{"role": "system", "content": "rules"}, *turn("a"), *turn("b"), *turn("c")]
    budget = count_messages([history[0], *turn("b"), *turn("c")])
    assert fit(history, budget_tokens=budget) == ([history[0], *turn("b"), *turn("c")], 4)
    assert fit(history, budget_tokens=budget - 1) == ([history[0], *turn("c")], 8)


def test_the_oldest_results_are_shortened_before_any_turn_goes() -> None:
    long = "word " * 2000
    history = [*turn("a", result=long), *turn("b", result=long), *turn("c", result=long), *turn("d")]
    total = count_messages(history)
    fitted, dropped = fit(history, budget_tokens=total - 2000)
    results = [message["content"] for message in fitted if message["role"] == "tool"]
    assert dropped == 0 and results[0] != long and results[1:] == [long, long, "fine"]
    fitted, dropped = fit(history, budget_tokens=total - 4000)
    results = [message["content"] for message in fitted if message["role"] == "tool"]
    assert dropped == 0 and long not in results[:2] and results[2:] == [long, "fine"]
    # The result that is at work goes last: an older turn goes first.
    some = "word " * 500
    history = [*turn("a", answer=some), *turn("b", answer=some), *turn("c", result=some)[:3]]
    fitted, dropped = fit(history, budget_tokens=count_messages(history[4:]) + 10)
    assert dropped == 4 and fitted == history[4:]


def test_one_giant_does_not_cost_the_rest_of_the_talk() -> None:
    giant = "Report about the harbour of Kiel. " + "word " * 40_000 + "The end."
    for role in ("user", "assistant"):
        history = [*turn("a"), *turn("b"), {"role": role, "content": giant}, *turn("c")]
        fitted, dropped = fit(history, budget_tokens=4000)
        assert dropped == 0 and count_messages(fitted) <= 4000
        shown = fitted[8]["content"]
        assert shown.startswith("Report about the harbour") and shown.endswith("The end.")
        assert "search_history has the whole text, query: Report about harbour Kiel …]" in shown
        assert [m for m in fitted if m is not fitted[8]] == [m for m in history if m is not history[8]]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("成都的旅行计划," * 5000, "成都的旅行计划"), ("金沢への旅行の計画です。" * 5000, "金沢への旅行の計"),
        ('{"rows": [' + '{"id": 1}, ' * 9000, "rows"), ("= " * 20_000, ""),
    ],
)  # fmt: skip
def test_the_pointer_names_words_that_the_search_finds(text: str, query: str) -> None:
    fitted, _ = fit([{"role": "user", "content": text}], budget_tokens=1500)
    shown = fitted[0]["content"]
    assert (f"query: {query}" in shown) if query else ("characters left out …]" in shown)
    number = int(re.search(r"\[… (\d+) characters left out", shown)[1])  # type: ignore[index]
    assert number == len(text) - (len(shown) - len(pointer(number, text)))


def test_the_tools_count_against_the_budget() -> None:
    history = [*turn("a"), *turn("b")]
    total = count_messages(history)
    assert fit(history, budget_tokens=total + 10, tools_tokens=10)[1] == 0
    assert fit(history, budget_tokens=total + 10, tools_tokens=11)[1] == 4


def test_the_oldest_results_of_the_last_turn_are_shortened_before_its_texts() -> None:
    long = "word " * 2000
    history = [*turn("a", result=long), *turn("b", result=long)[1:], {"role": "assistant", "content": long}]
    fitted, dropped = fit(history, budget_tokens=count_messages(history) - 500)
    assert dropped == 0
    assert "characters left out; search_history" in fitted[2]["content"]
    assert [m["content"] for m in fitted[3:]] == [m["content"] for m in history[3:]]
    assert fitted[2]["content"].startswith("word word") and fitted[2]["content"].endswith("word ")


def test_a_text_is_shortened_no_more_than_it_takes() -> None:
    history = [{"role": "user", "content": "x" * 40_000}]
    fitted, _ = fit(history, budget_tokens=5000)
    assert 4900 < count_messages(fitted) <= 5000
    left = len(fitted[0]["content"]) - len(pointer(10_000, "x" * 40_000))
    assert f"[… {40_000 - left} characters left out" in fitted[0]["content"]


def test_a_system_message_is_never_shortened() -> None:
    history = [{"role": "system", "content": "rule " * 3000}, {"role": "user", "content": "word " * 3000}]
    fitted, _ = fit(history, budget_tokens=100)
    assert fitted[0] is history[0]
    assert len(fitted[1]["content"]) < FLOOR_CHARS + POINTER_CHARS


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog near the river bank.", 14, 22),
        ("我们明天下午三点在上海开会,请把报告准备好。", 14, 26),
        ("明日の午後三時に東京で会議がありますので、資料を用意してください。", 20, 40),
        ('{"city": "Berlin", "days": 3, "units": "metric"}', 16, 32),
        ("550e8400-e29b-41d4-a716-446655440000", 16, 36),
        ("Привет, как дела?", 5, 17),
        ("🎉🎉🎉", 3, 9),
        ("", 0, 0),
    ],
)
def test_estimates_are_right_for_many_scripts(text: str, low: int, high: int) -> None:
    assert low <= count_tokens(text) <= high


@given(st.text(st.characters(), max_size=200), st.text(max_size=200))
def test_estimates_grow_with_the_text_and_hold_half_a_character(one: str, two: str) -> None:
    assert max(count_tokens(one), count_tokens(two)) <= count_tokens(one + two) <= 2 * len(one + two)


def test_tool_definitions_cost_what_their_text_costs() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert count_tools([tool, tool]) == 2 * count_tools([tool]) > 20


texts = st.sampled_from(["", "hello", "word " * 300, "雨" * 900, "x" * 2500, "🎉" * 150]) | st.text(max_size=30)
call = st.builds(
    lambda call_id, text: {
        "id": call_id,
        "type": "function",
        "function": {"name": "look", "arguments": text},
    },
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["{}", '{"text": "' + "y" * 300 + '"}']),
)
message = st.one_of(
    st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "system"]), texts),
    st.builds(lambda text, calls: {"role": "assistant", "content": text, "tool_calls": calls}, texts, st.lists(call)),
    st.builds(
        lambda call_id, text: {"role": "tool", "tool_call_id": call_id, "content": text},
        st.sampled_from(["a", "b", "c"]),
        texts,
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(message, max_size=20), st.integers(0, 6000), st.integers(0, 500))
def test_the_result_fits_or_is_minimal_and_is_sound(history: list[Json], budget: int, tools: int) -> None:
    sound = list(repair(history))
    fitted, dropped = fit(sound, budget_tokens=budget, tools_tokens=tools)
    assert len(fitted) == len(sound) - dropped
    assert list(repair(fitted)) == fitted  # pair-valid
    users = [index for index, m in enumerate(sound) if m["role"] == "user"]
    tail = sound[users[-1] :] if users else []
    _check_same_but_shorter(fitted[len(fitted) - len(tail) :], tail)
    assert [m for m in fitted if m["role"] == "system"] == [m for m in sound if m["role"] == "system"]
    if count_messages(fitted) + tools > budget:
        shrinkable = [m for m in fitted if m["role"] != "system"]
        assert not users or len(shrinkable) == len([m for m in tail if m["role"] != "system"])
        assert all(len(m["content"] or "") <= FLOOR_CHARS + POINTER_CHARS for m in shrinkable)
    if count_messages(sound) + tools <= budget:
        assert fitted == sound


def _check_same_but_shorter(fitted: list[Any], whole: list[Any]) -> None:
    for new, old in zip(fitted, whole, strict=True):
        assert {**new, "content": None} == {**old, "content": None}
        assert new["content"] == old["content"] or "characters left out" in new["content"]
