"""Repaired histories are what a strict provider accepts, whatever was stored."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from butler.memory.history import NO_RESULT, repair
from tests.support.history import history_problem

Json = dict[str, Any]


def asks(*ids: Any, text: str | None = None, arguments: Any = "{}") -> Json:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}} for call_id in ids
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(call_id: Any, text: Any = "fine") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


USER: Json = {"role": "user", "content": "hello"}
SAYS: Json = {"role": "assistant", "content": "hi"}


def test_a_sound_history_stays_the_same_objects() -> None:
    history = [{"role": "system", "content": "s"}, USER, asks("a", "b"), result("a"), result("b"), SAYS]
    assert all(new is old for new, old in zip(repair(history), history, strict=True))


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    repaired = repair([USER, asks("a", "b"), result("b"), USER])
    assert [m["content"] for m in repaired if m["role"] == "tool"] == [NO_RESULT, "fine"]
    assert NO_RESULT.startswith("No result: ")


def test_results_come_in_the_order_of_the_calls() -> None:
    repaired = repair([USER, asks("a", "b"), result("b", "second"), result("a", "first")])
    assert [m["content"] for m in repaired[2:]] == ["first", "second"]


def test_orphans_and_repeated_results_are_dropped() -> None:
    repaired = repair([result("z"), USER, asks("a"), result("a", "one"), result("a", "two"), result("q"), SAYS])
    assert repaired == [USER, asks("a"), result("a", "one"), SAYS]


def test_a_late_result_moves_to_its_call() -> None:
    assert repair([USER, asks("a"), USER, result("a", "late"), SAYS]) == [
        USER,
        asks("a"),
        result("a", "late"),
        USER,
        SAYS,
    ]


def test_empty_messages_are_dropped() -> None:
    silent: list[Json] = [{"role": "assistant", "content": ""}, {"role": "assistant"}, {**SAYS, "content": None}]
    bare: list[Json] = [{**SAYS, "content": None, "tool_calls": []}, {"role": "user", "content": ""}]
    assert repair([USER, *silent, *bare]) == [USER]


def test_an_empty_list_of_calls_is_left_out_of_a_spoken_message() -> None:
    assert repair([USER, {**SAYS, "tool_calls": []}]) == [USER, SAYS]


def test_ids_used_twice_are_renamed_with_their_results() -> None:
    repaired = repair([USER, asks("a"), result("a", "one"), USER, asks("a", "a"), result("a", "two"), result("a")])
    assert [c["id"] for m in repaired for c in m.get("tool_calls", ())] == ["a", "a_2", "a_3"]
    assert [(m["tool_call_id"], m["content"]) for m in repaired if m["role"] == "tool"] == [
        ("a", "one"),
        ("a_2", "two"),
        ("a_3", "fine"),
    ]


def test_a_repeated_result_is_never_given_to_an_older_call() -> None:
    repaired = repair([USER, asks("a"), USER, asks("a"), result("a", "one"), result("a", "two")])
    assert [m["content"] for m in repaired if m["role"] == "tool"] == [NO_RESULT, "one"]


def test_a_made_up_id_never_takes_one_that_comes_later() -> None:
    repaired = repair([USER, asks("a", "a"), asks("a_2"), result("a_2", "its own")])
    assert [c["id"] for m in repaired for c in m.get("tool_calls", ())] == ["a", "a_3", "a_2"]
    assert repaired[-1] == result("a_2", "its own")


def test_missing_ids_are_given_and_their_results_found() -> None:
    repaired = repair([USER, asks(None, ""), result(None, "one"), result("", "two")])
    assert [m["content"] for m in repaired if m["role"] == "tool"] == ["one", "two"]
    assert history_problem([*repaired, USER]) is None


def test_malformed_arguments_are_wrapped_so_that_the_model_sees_them() -> None:
    repaired = repair([USER, asks("a", arguments='{"city": "Ber')])
    arguments = repaired[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"malformed_arguments": '{"city": "Ber'}


def test_a_name_no_provider_takes_is_made_fit() -> None:
    message = asks("a")
    message["tool_calls"][0]["function"]["name"] = "réad file!"
    assert repair([USER, message])[1]["tool_calls"][0]["function"]["name"] == "r_ad_file_"


ids = st.sampled_from(["a", "b", "c", "a_2", "call_1", "", None, 7]) | st.text(max_size=3)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
arguments = st.sampled_from(["{}", '{"x": 1}', '{"x": ', "", "[1]", '{"x": NaN}', '"\\ud800"']) | junk
call = st.fixed_dictionaries(
    {"id": ids, "type": st.just("function")},
    optional={
        "function": st.fixed_dictionaries({"name": st.sampled_from(["look", "", "a b"]) | junk, "arguments": arguments})
    },
)
message = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": st.text(max_size=5)}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | st.text(max_size=5)},
        optional={"tool_calls": st.lists(call | junk, max_size=3) | junk},
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": ids, "content": st.text(max_size=5) | junk}),
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "tool_call_id"]), junk, max_size=4),
)
histories = st.lists(message | junk, max_size=14)


@settings(max_examples=250, deadline=None)
@given(histories)
def test_any_broken_history_becomes_valid_and_stays_so(history: list[Any]) -> None:
    before = copy.deepcopy(history)
    repaired = repair(history)
    assert repr(history) == repr(before)  # pure; NaN makes == useless
    _check(repaired)
    again = repair(repaired)
    assert all(new is old for new, old in zip(again, repaired, strict=True))


@settings(max_examples=200, deadline=None)
@given(histories)
def test_what_was_said_is_kept_in_order(history: list[Any]) -> None:
    def spoken(messages: list[Any]) -> list[str]:
        return [
            m["content"]
            for m in messages
            if isinstance(m, dict)
            and m.get("role") in ("user", "system", "assistant")
            and isinstance(m.get("content"), str)
            and m["content"].strip()
        ]

    assert spoken(list(repair(history))) == spoken(history)


def _check(messages: list[Any]) -> None:
    """Walk the result with rules written apart from those under test."""
    seen_ids: set[str] = set()
    position = 0
    while position < len(messages):
        current = messages[position]
        position += 1
        assert current["role"] != "tool", f"result without a call before position {position}"
        calls = current.get("tool_calls", [])
        if current["role"] == "assistant":
            assert calls or current["content"]
            assert "tool_calls" not in current or calls
        for one in calls:
            assert one["id"] and one["id"] not in seen_ids
            seen_ids.add(one["id"])
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
        for one in calls:
            answer = messages[position]
            position += 1
            assert (answer["role"], answer["tool_call_id"]) == ("tool", one["id"])
            assert isinstance(answer["content"], str | list)
    if messages:
        assert history_problem([*messages, {"role": "user", "content": "next"}]) in (
            None,
            _list_content(messages),
        )


def _list_content(messages: list[Any]) -> str | None:
    # Content in parts is sound for an assistant, although the test endpoint takes only text there.
    for index, current in enumerate(messages):
        if current["role"] == "assistant" and not isinstance(current["content"], str | None):
            return f"messages[{index}]: assistant message without content or calls"
    return None
