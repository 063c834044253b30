"""The tests' own model endpoint: that it notices broken histories and answers as ordered."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

from tests.support.directives import reply_for
from tests.support.history import history_problem
from tests.support.polling import wait_until
from tests.support.replies import Call, Reply
from tests.support.scripted_model import ScriptedModel

USER = {"role": "user", "content": "hello"}


def calls(*ids: Any, arguments: str = "{}") -> dict[str, Any]:
    """An assistant message with one call per id."""
    made = [{"id": i, "type": "function", "function": {"name": "t", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str) -> dict[str, Any]:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": "fine"}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [{"role": "system", "content": "be kind"}, USER],
        [USER, {"role": "assistant", "content": "hi"}, USER],
        [USER, calls("a", "b"), result("a"), result("b")],
        [USER, calls("a"), result("a"), calls("a"), result("a"), {"role": "assistant", "content": "x"}, USER],
    ],
)
def test_a_sound_history_is_accepted(messages: list[Any]) -> None:
    assert history_problem(messages) is None


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER, calls("a")],
        [USER, calls("a"), USER],
        [USER, calls("a", "b"), result("a")],
        [USER, calls("a", "b"), result("b"), result("a")],
        [USER, calls("a"), result("a"), result("a")],
        [USER, result("a")],
        [USER, calls("a"), result("b")],
        [USER, calls("a", "a"), result("a"), result("a")],
        [USER, calls(None), result("a")],
        [USER, calls("a", arguments="{oops"), result("a")],
        [USER, calls("a", arguments="[]"), result("a")],
        [USER, {"role": "assistant", "content": None}, USER],
        [USER, {"role": "assistant", "content": "hi"}],
        [{"role": "user", "content": ""}],
    ],
    ids=str,
)
def test_a_broken_history_is_named(messages: list[Any]) -> None:
    assert history_problem(messages)


def test_a_broken_history_is_refused_and_remembered(shared_model: ScriptedModel) -> None:
    body = {"model": "scripted", "messages": [USER, result("a")]}
    response = httpx.post(f"{shared_model.url}/chat/completions", json=body, trust_env=False)
    assert response.status_code == 400
    assert len(shared_model.problems()) == 1
    shared_model.reset()
    assert shared_model.problems() == []


def test_orders_are_read_in_phases() -> None:
    text = '[[call a {"x": "]] [["}]][[call b {}]] [[then]] [[rounds 2]] [[say again]] [[then]] [[say end]]'
    seen: Counter[str] = Counter()
    assert reply_for(text, 0, seen) == Reply(calls=(Call("a", '{"x": "]] [["}'), Call("b", "{}")))
    assert [(reply_for(text, n, seen) or Reply()).text for n in (1, 2, 3)] == ["again", "again", "end"]
    assert reply_for(text, 4, seen) is None


def test_a_fault_passes_after_its_times() -> None:
    seen: Counter[str] = Counter()
    statuses = [(reply_for("[[status 503 2]]", 0, seen) or Reply()).status for _ in range(3)]
    assert statuses == [503, 503, 200]


def test_waiting_for_what_never_comes_fails() -> None:
    with pytest.raises(AssertionError, match="not within"):
        wait_until(lambda: False, "pigs fly", 0.01)
