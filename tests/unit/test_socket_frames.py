"""Frames from outside: strict, and whatever arrives decides nothing unless it says so exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.errors import ButlerError
from service.socket.frames import (
    MOST_FRAME_BYTES,
    AuthFrame,
    AuthResponseFrame,
    ChatFrame,
    error_frame,
    message_of,
    read_frame,
)


def refusal(value: Any) -> ButlerError:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(ButlerError) as caught:
        frame = read_frame(text)
        if isinstance(frame, AuthResponseFrame):
            frame.read()
    return caught.value


def answer(**frame: Any) -> Any:
    read = read_frame(json.dumps({"type": "AUTH_RESPONSE", **frame}))
    assert isinstance(read, AuthResponseFrame)
    return read.read()


@pytest.mark.parametrize("place", ["top", "payload", "both"])
def test_an_answer_is_read_at_the_top_and_in_the_payload(place: str) -> None:
    said: dict[str, Any] = {"action_id": "a1", "approved": True}
    frame: dict[str, Any] = {"top": said, "payload": {"payload": said}, "both": {**said, "payload": said}}[place]
    assert (answer(**frame).action_id, answer(**frame).approved) == ("a1", True)


def test_one_half_may_stand_here_and_the_other_there() -> None:
    assert answer(action_id="a1", payload={"approved": False, "reason": "no"}).reason == "no"


@pytest.mark.parametrize("approved", ["true", "yes", 1, 0, None, [], {}, [True], 1.0, ""])
@pytest.mark.parametrize("inside", [True, False])
def test_approved_is_true_or_false_and_nothing_else(approved: object, inside: bool) -> None:
    said = {"action_id": "a1", "approved": approved}
    error = refusal({"type": "AUTH_RESPONSE", **({"payload": said} if inside else said)})
    assert error.code == "invalid_request"
    assert "approved: expected true or false" in error.detail


@pytest.mark.parametrize(
    "frame",
    [
        {"action_id": "a1"},
        {"approved": True},
        {"action_id": "a1", "approved": True, "payload": {"approved": False}},
        {"action_id": "a1", "approved": True, "payload": {"action_id": "a2"}},
        {"action_id": "a1", "approved": True, "payload": "yes"},
        {"action_id": "a1", "approved": True, "payload": ["a1"]},
        {"action_id": "a1", "approved": True, "surprise": 1},
        {"action_id": "a1", "approved": True, "payload": {"surprise": 1}},
    ],
)
def test_what_is_missing_doubtful_or_unknown_is_refused(frame: Any) -> None:
    assert refusal({"type": "AUTH_RESPONSE", **frame}).code == "invalid_request"


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"CHAT"', "{}", '{"type": "CHAT", "type": "AUTH"}', "nul",
                                  '{"type": 7}', '{"type": ["CHAT"]}', '{"type": "AUTH_REQUEST"}', '{"type": "chat"}',
                                  '{"type": "CHAT", "payload": NaN}', "[" * 5000,
                                  '{"type": "CHAT", "payload": "\\ud800"}'])  # fmt: skip
def test_what_is_no_frame_is_said_to_be_none(text: str) -> None:
    assert refusal(text).code == "invalid_request"


def test_a_frame_over_the_limit_is_too_large() -> None:
    assert refusal(json.dumps({"type": "CHAT", "payload": "x" * MOST_FRAME_BYTES})).code == "too_large"


def test_a_refusal_repeats_no_token() -> None:
    assert "secret" not in refusal({"type": "AUTH", "token": ["secret"]}).detail


@pytest.mark.parametrize("payload", [None, "", "  \n", 3, {"text": "hi"}, ["hi"], "x" * 200_001])
def test_a_message_is_text_that_says_something(payload: Any) -> None:
    frame = read_frame(json.dumps({"type": "CHAT", "payload": payload}))
    assert isinstance(frame, ChatFrame)
    with pytest.raises(ButlerError, match="payload"):
        message_of(frame)


def test_an_error_names_what_the_frame_named() -> None:
    frame = read_frame('{"type": "CHAT", "payload": "x", "thread_id": "t", "correlation_id": "c"}')
    told = error_frame(ButlerError("not_found", "There is none.", extra=1), frame)
    assert told == {
        "type": "ERROR", "code": "not_found", "detail": "There is none.", "status": 404, "payload": "There is none.",
        "thread_id": "t", "correlation_id": "c", "extra": 1,
    }  # fmt: skip


NAMES = st.text(max_size=8) | st.sampled_from(
    ["type", "payload", "approved", "action_id", "token", "reason", "seq", "x"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["AUTH", "CHAT", "AUTH_RESPONSE", "a1", "true"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=12,
)  # fmt: skip
FRAMES = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(["AUTH", "CHAT", "AUTH_RESPONSE", "ERROR", "", None]),
    st.dictionaries(NAMES, VALUES, max_size=6),
)


@given(VALUES | FRAMES)
def test_whatever_json_arrives_is_a_frame_or_a_refusal_and_only_a_boolean_decides(value: Any) -> None:
    try:
        frame = read_frame(json.dumps(value))
        read = frame.read() if isinstance(frame, AuthResponseFrame) else None
    except ButlerError as error:
        assert error.code == "invalid_request"
        return
    assert isinstance(frame, AuthFrame | ChatFrame | AuthResponseFrame)
    if read is not None:
        parts = [part for part in (value, value.get("payload")) if isinstance(part, dict)]
        said = [part["approved"] for part in parts if "approved" in part]
        assert said and all(one is read.approved for one in said)


@given(st.text(max_size=200) | st.text(alphabet='{}[]":,truefalsnypAUTH_RESPONE 1', max_size=80))
def test_whatever_text_arrives_is_a_frame_or_a_refusal(text: str) -> None:
    try:
        read_frame(text)
    except ButlerError as error:
        assert error.code == "invalid_request"
