"""What a run says again after a restart is told once; streams are read whatever pieces they come in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.sse import Event, read_events
from service.cli.talk.again import Again
from service.events import EPOCH_SIZE


def told(*events: Event) -> str:
    """What would be printed of these events."""
    again, said = Again(), ""
    for event in events:
        again.begins_anew(event)
        if event.name == "token":
            said += again.text_of(event)
        elif event.name == "tool":
            said += "|" if again.is_news(event) else ""
    return said


def tokens(*words: str, epoch: int = 0, start: int = 1) -> list[Event]:
    return [Event(epoch * EPOCH_SIZE + start + n, "token", {"text": word}) for n, word in enumerate(words)]


def tool(number: int, epoch: int = 0, phase: str = "done", action: str = "a") -> Event:
    return Event(epoch * EPOCH_SIZE + number, "tool", {"action_id": action, "phase": phase})


def test_a_text_that_begins_anew_goes_on_where_it_was_cut() -> None:
    assert told(*tokens("one ", "two"), *tokens("one", " two", " three", epoch=1)) == "one two three"


def test_another_text_is_told_whole_after_a_blank_line() -> None:
    assert told(*tokens("one ", "two"), *tokens("one ", "four", epoch=1)) == "one two\n\none four"


def test_after_a_tool_only_what_followed_it_begins_anew() -> None:
    events = [*tokens("first"), tool(2), *tokens("sec", start=3), *tokens("sec", "ond", epoch=1)]
    assert told(*events) == "first|second"


def test_a_whole_reply_from_the_store_is_not_told_again() -> None:
    assert told(*tokens("one ", "two"), *tokens("one two", epoch=1)) == "one two"
    assert told(*tokens("one"), *tokens("one two", epoch=1)) == "one two"


def test_what_tools_did_is_told_once() -> None:
    assert told(tool(1), tool(1, epoch=1), tool(2, epoch=1, action="b")) == "||"


@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=6), st.data())
def test_wherever_it_is_cut_the_same_text_is_told_once(words: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(words)))
    assert told(*tokens(*words[:cut]), *tokens(*words, epoch=1)) == "".join(words)


@given(st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=2), max_size=5), st.integers(1, 9))
def test_a_stream_is_read_in_any_pieces(items: list[dict[str, str]], size: int) -> None:
    raw = b": keep-alive\n\n" + b"".join(
        b"id: %d\nevent: token\ndata: %s\n\n" % (n, json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"))
        for n, item in enumerate(items, 1)
    )
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert [event.seq for event in read_events(pieces)] == list(range(1, len(items) + 1))


def test_line_separators_inside_json_end_no_line() -> None:
    text = "a\u2028b\x85c"
    raw = b"id: 1\nevent: token\ndata: " + json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n\n"
    assert list(read_events([raw])) == [Event(1, "token", {"text": text})]


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        list(read_events([b"data: " + data + b"\n\n"]))


def test_one_message_needs_no_terminal_and_no_markdown() -> None:
    """A script that says one thing does not wait for what only a talk needs."""
    loaded = "import sys, service.cli.chat, service.cli.talk.oneshot; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"prompt_toolkit", "rich.markdown", "sqlalchemy", "langgraph", "fastapi"} & set(done.stdout.split())
