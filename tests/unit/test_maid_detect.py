"""What an attempt is stopped for while it runs, from its events alone, in bounded memory (D7, D11)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.contract import (
    Finished,
    MaidEvent,
    Output,
    PermissionRequest,
    ProviderTrouble,
    Started,
    Stop,
    ToolUse,
)
from butler.maids.detect import KEPT_CALLS, Detector, detector_for
from butler.maids.failures import classify
from butler.maids.repetition import WINDOW, Repetition, shortest_period
from config.maid_types import Limits

TREE = Path("/project/tree")


def tool(call_id: str, raw: dict[str, Any] | None = None, status: Any = "completed", **more: Any) -> ToolUse:
    return ToolUse(
        call_id, more.pop("kind", "execute"), more.pop("title", "shell"), status, raw_input=raw or {}, **more
    )


def detector(**more: Any) -> Detector:
    return Detector(TREE, **more)


def fed(watch: Detector, *events: MaidEvent) -> Stop | None:
    stop = None
    for event in events:
        stop = watch.event(event)
    return stop


def class_of(stop: Stop | None) -> str | None:
    return stop.failure_class if stop else None


def test_the_fourth_equal_call_in_a_row_is_a_loop_and_a_different_one_begins_anew() -> None:
    watch = detector()
    same = [tool(f"a{n}", {"command": "ls"}) for n in range(3)]
    assert fed(watch, Started(1, ("x",)), *same) is None
    assert fed(watch, tool("b", {"command": "cat a"}), *(tool(f"c{n}", {"command": "ls"}) for n in range(3))) is None
    stop = fed(watch, tool("c3", {"command": "ls"}))
    assert class_of(stop) == "loop_detected" and stop is not None and "4 times" in stop.detail
    assert watch.event(tool("d", {"command": "pwd"})) == stop


def test_a_call_told_again_and_again_is_one_call_and_arguments_may_come_late() -> None:
    watch = detector(tool_calls=3)
    for _ in range(20):
        assert fed(watch, tool("a", status="pending"), tool("a", {"command": "ls"}, "in_progress")) is None
    for n, command in enumerate(("ls", "pwd")):
        assert fed(watch, tool(f"b{n}", status="pending"), tool(f"b{n}", {"command": command})) is None
    assert class_of(fed(watch, tool("e", {"command": "id"}))) == "loop_detected"


def test_calls_without_arguments_are_equal_only_with_the_same_result() -> None:
    assert fed(detector(), *(tool(f"p{n}", status="pending") for n in range(9))) is None
    assert fed(detector(), *(tool(f"a{n}", output=f"result {n}") for n in range(9))) is None
    assert class_of(fed(detector(), *(tool(f"b{n}", output="same") for n in range(4)))) == "loop_detected"


def test_the_number_of_calls_is_capped() -> None:
    watch = detector(tool_calls=10)
    assert fed(watch, *(tool(f"a{n}", {"command": f"echo {n}"}) for n in range(10))) is None
    assert class_of(fed(watch, tool("last", {"command": "echo x"}))) == "loop_detected"


def test_the_same_sentence_without_end_is_a_loop_whatever_the_pieces_and_prose_is_not() -> None:
    text = "I will now create the file. " * 400
    for size in (1, 7, 1_000, len(text)):
        watch = detector()
        pieces = [Output("message", text[at : at + size]) for at in range(0, len(text), size)]
        assert class_of(fed(watch, *pieces)) == "loop_detected", size
    prose = " ".join(f"Step {n} of the plan is number {n * n}." for n in range(2_000))
    assert fed(detector(), Output("message", prose), Output("message", "-" * 9_000)) is None
    assert fed(detector(), Output("stdout", text)) is None


def test_a_call_that_runs_too_long_hangs_and_one_that_waits_for_leave_does_not() -> None:
    now = [0.0]
    watch = detector(hung_after=60, clock=lambda: now[0])
    fed(watch, tool("a", {"command": "serve"}, "pending"))
    now[0] = 1_000.0
    assert watch.tick() is None
    fed(watch, tool("a", {"command": "serve"}, "in_progress"))
    now[0] = 1_059.0
    assert watch.tick() is None and fed(watch, tool("a", {"command": "serve"}, "in_progress")) is None
    now[0] = 1_061.0
    assert class_of(watch.tick()) == "hung_foreground"


def test_a_hanging_call_is_found_while_other_events_go_on_and_one_that_prints_does_not_hang() -> None:
    now = [0.0]
    watch = detector(hung_after=60, clock=lambda: now[0])
    for minute in range(5):
        now[0] = minute * 50.0
        assert fed(watch, tool("a", {"command": "make"}, "in_progress", output=f"{minute} passed")) is None
    assert fed(watch, tool("a", {"command": "make"})) is None
    fed(watch, tool("b", {"command": "serve"}, "in_progress"))
    now[0] += 61.0
    assert class_of(fed(watch, Output("stderr", "."))) == "hung_foreground"


def test_a_call_that_ended_does_not_hang() -> None:
    watch = detector(hung_after=60, clock=lambda: 0.0)
    fed(watch, tool("a", {"command": "make"}, "in_progress"), tool("a", {"command": "make"}, "completed"))
    assert watch.tick(now=1_000.0) is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (tool("a", kind="edit", locations=(Path("/project/tree/a.py"),)), None),
        (tool("a", kind="edit", locations=(Path("/project/other/a.py"),)), "wrong_directory"),
        (tool("a", kind="edit", locations=(Path("/project/tree2/a.py"),)), "wrong_directory"),
        (tool("a", kind="read", locations=(Path("/etc/hosts"),)), None),
        (tool("a", kind="other", raw={"path": "../x", "content": ""}), "wrong_directory"),
        (tool("a", kind="other", raw={"path": "x", "content": ""}), None),
        (tool("a", kind="other", raw={"path": "../x"}), None),
        (tool("a", kind="edit", status="failed", locations=(Path("/etc/hosts"),)), None),
        (tool("a", kind="edit", status="pending", locations=(Path("/etc/hosts"),)), None),
        (tool("a", kind="edit", locations=(Path("/attempt/temp/x"),)), None),
        (tool("a", {"command": "pip install x"}), "forbidden_action"),
        (tool("a", {"command": ["bash", "-lc", "npm ci"]}, "in_progress"), "forbidden_action"),
        (tool("a", {"command": "pip install x"}, "pending"), None),
        (tool("a", {"command": "pip install x"}, "failed"), None),
        (tool("a", {"command": "str_replace", "path": "a.py"}), None),
    ],
)
def test_writing_outside_and_forbidden_commands_stop_once_they_were_done(event: ToolUse, expected: str | None) -> None:
    assert class_of(fed(detector(also_allowed=[Path("/attempt/temp")]), event)) == expected


def test_a_command_told_before_the_call_ran_is_known_when_it_runs() -> None:
    watch = detector()
    assert fed(watch, tool("a", {"command": "pip install x"}, "pending")) is None
    assert class_of(fed(watch, tool("a", status="completed"))) == "forbidden_action"


def test_asking_again_for_what_was_refused_ends_the_attempt() -> None:
    watch = detector()
    request = PermissionRequest("c1", "execute", "rm -rf x", "rm -rf x")
    assert watch.answered(request, "allow") is None and watch.answered(request, "reject") is None
    other = PermissionRequest("c2", "execute", "rm -rf x", "rm -rf y")
    assert watch.answered(other, "reject") is None
    again = PermissionRequest("c9", "execute", "please", "rm -rf x")
    assert class_of(watch.answered(again, "reject")) == "policy_violation"


def test_a_provider_that_asks_for_an_hour_or_always_fails_ends_the_attempt() -> None:
    assert fed(detector(), ProviderTrouble(429, "slow", 3.0)) is None
    assert class_of(fed(detector(), ProviderTrouble(429, "slow", 3_600.0))) == "provider_error"
    assert class_of(fed(detector(), *[ProviderTrouble(500, "x")] * 12)) == "provider_error"
    watch = detector()
    for n in range(20):
        assert fed(watch, ProviderTrouble(500, "x"), tool(f"a{n}", {"command": f"echo {n}"})) is None


def test_a_provider_that_only_fails_for_a_minute_ends_the_attempt_and_a_word_begins_anew() -> None:
    now = [0.0]
    watch = detector(clock=lambda: now[0])
    for moment in (0.0, 2.0, 6.0, 14.0, 30.0, 59.0):
        now[0] = moment
        assert fed(watch, ProviderTrouble(500, "x")) is None
    assert fed(watch, Output("message", "hello")) is None
    for moment in (62.0, 92.0, 121.0):
        now[0] = moment
        assert fed(watch, ProviderTrouble(500, "x")) is None
    now[0] = 122.5
    stop = fed(watch, Output("stderr", "retrying"), ProviderTrouble(500, "x"))
    assert stop == Stop("provider_error", "The provider has failed for 60 s.")


def test_trouble_now_and_then_ends_no_agent_that_is_quiet_until_it_is_done() -> None:
    now = [0.0]
    watch = detector(clock=lambda: now[0])
    for number in range(8):
        now[0] += 50.0
        assert fed(watch, ProviderTrouble(429, "slow", None, answers=number)) is None
    now[0] += 61.0
    assert class_of(fed(watch, ProviderTrouble(429, "slow", None, answers=7))) == "provider_error"


@pytest.mark.parametrize(
    ("events", "recovered"),
    [
        ([ProviderTrouble(500, "x")], False),
        ([ProviderTrouble(500, "x"), Output("message", "Ran into this "), Output("message", "error: x")], False),
        ([ProviderTrouble(500, "x"), Output("message", "I have created the file.")], True),
        ([ProviderTrouble(500, "x"), tool("a", {"command": "ls"})], True),
        ([tool("a", {"command": "ls"}), ProviderTrouble(500, "x")], False),
        ([Output("message", "hello")], False),
    ],
)
def test_it_is_known_whether_the_agent_went_on_after_the_last_trouble(events: list[MaidEvent], recovered: bool) -> None:
    watch = detector()
    fed(watch, *events)
    assert watch.observation(Finished(0), None).recovered is recovered


def test_the_last_words_and_calls_are_kept_for_the_verdict() -> None:
    watch = detector_for(Limits(), TREE)
    fed(watch, Output("message", "I look "), Output("message", "around."), tool("a", {"command": "ls"}, output="a.py"))
    fed(watch, Output("message", "Shall I "), Output("message", "proceed?"))
    seen = watch.observation(Finished(0), None, ("/x",))
    assert seen.texts == ("I look around.", "Shall I proceed?") and seen.outside == ("/x",)
    assert [(one.call_id, one.output) for one in seen.tools] == [("a", "a.py")]


STATUS = st.sampled_from(["pending", "in_progress", "completed", "failed"])
RAW = st.dictionaries(
    st.sampled_from(["command", "path", "content", "x"]),
    st.text(max_size=8) | st.lists(st.text(max_size=3)) | st.none(),
)
TOOLS = st.builds(
    ToolUse, st.sampled_from("abcdef"), st.sampled_from(["edit", "execute", "other", ""]), st.text(max_size=5), STATUS,
    st.just((TREE / "a",)), RAW, st.text(max_size=5),
)  # fmt: skip
EVENTS = st.one_of(
    TOOLS,
    st.builds(Output, st.sampled_from(["stdout", "stderr", "message", "thought"]), st.text(max_size=50)),
    st.builds(ProviderTrouble, st.sampled_from([0, 401, 429, 500]), st.text(max_size=5), st.none() | st.floats(0, 9e3)),
    st.just(Started(1, ("x",))),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_whatever_comes_a_stop_stays_and_the_attempt_can_be_judged(events: list[MaidEvent]) -> None:
    watch = detector()
    first: Stop | None = None
    for event in events:
        stop = watch.event(event)
        assert first is None or stop == first
        first = first or stop
    assert watch.tick() == first or first is None
    seen = watch.observation(Finished(0, stopped=first), None)
    failure = classify(seen)
    assert failure is not None
    assert first is None or failure.failure_class in (first.failure_class, "provider_error")


def test_floods_of_calls_texts_and_troubles_take_bounded_memory() -> None:
    watch = detector(tool_calls=10**9)
    big = "x" * 20_000
    for n in range(300):
        watch.event(tool(f"call{n}", {"command": f"{n} {big}", "content": [big] * 3}, title=big, output=big))
        watch.event(Output("message", f"{n}{big}"))
        watch.event(ProviderTrouble(500, big))
    seen = watch.observation(Finished(0), None)
    assert len(seen.tools) == KEPT_CALLS
    kept = sum(len(one.title) + len(one.output) + len(str(one.raw_input)) for one in seen.tools)
    kept += sum(map(len, seen.texts)) + sum(len(one.detail) for one in seen.trouble)
    assert kept < 3_000_000


def test_arguments_that_nest_without_end_are_no_harm() -> None:
    raw: Any = {}
    for _ in range(sys.getrecursionlimit() * 3):
        raw = {"x": raw}
    assert class_of(fed(detector(), *(tool(f"a{n}", raw) for n in range(4)))) == "loop_detected"


@given(st.text("ab", min_size=1, max_size=6), st.integers(2, 9))
def test_the_shortest_period_repeats_to_the_whole(unit: str, times: int) -> None:
    text = unit * times
    period = shortest_period(text)
    assert period <= len(unit) and (text[:period] * len(text))[: len(text)] == text


def test_repetition_keeps_only_its_window() -> None:
    seen = Repetition()
    assert seen.add("abc" * 10**6) is None
    assert len(seen._window) == WINDOW
