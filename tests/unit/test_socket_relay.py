"""Runs as frames: the text as it comes, the whole of it, and exactly one end for each stream."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from butler.redact import Redactor
from service.events import RunLogs
from service.socket.relay import Relay


class Told:
    """A relay over fresh logs, and the frames that each user got."""

    def __init__(self) -> None:
        self.logs = RunLogs()
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.relay = Relay(self._send, self._send, Redactor([]))
        self.logs.taps.append(self.relay.hear)

    def _send(self, user_id: str, frame: dict[str, Any]) -> None:
        self.frames.append((user_id, frame))

    def of(self, user_id: str) -> list[tuple[str, str]]:
        return [(frame["type"], frame["payload"]) for who, frame in self.frames if who == user_id]

    def streams(self, user_id: str) -> list[str]:
        """The ids of the streams that ended for a user, in order."""
        return [one["stream_id"] for who, one in self.frames if who == user_id and one["type"] == "CHAT_STREAM_END"]


def outcome(status: str, reply: str = "", *waiting: str, error: Any = None) -> dict[str, Any]:
    return {"status": status, "reply": reply, "approvals": [{"action_id": one} for one in waiting], "error": error}


def test_a_turn_that_parks_and_goes_on_is_two_streams_and_the_second_has_the_actions_id() -> None:
    told = Told()
    log = told.logs.open("r1")
    log.begin("t1")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    for text in ("Let me ", "ask."):
        log.emit("token", {"text": text})
    log.emit("approval", {"action_id": "a1"})
    log.end(outcome("parked", "Let me ask.", "a1"))
    log.begin("t1")
    log.emit("token", {"text": "Done."})
    log.end(outcome("done", "Done."))
    assert told.of("ann") == [
        ("CHAT_STREAM", "Let me "), ("CHAT_STREAM", "ask."), ("CHAT", "Let me ask."), ("CHAT_STREAM_END", ""),
        ("CHAT_STREAM", "Done."), ("CHAT", "Done."), ("CHAT_STREAM_END", ""),
    ]  # fmt: skip
    assert told.streams("ann") == ["r1", "a1"]


def test_a_decision_that_comes_before_the_park_ends_the_stream_and_begins_the_next() -> None:
    told = Told()
    log = told.logs.open("r1")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    log.begin("t1")
    log.emit("token", {"text": "before"})
    log.emit("approval", {"action_id": "a1"})
    log.begin("t1")
    log.emit("token", {"text": "after"})
    log.end(outcome("done", "after"))
    assert told.streams("ann") == ["r1", "a1"]
    assert [one["payload"] for _, one in told.frames if one["stream_id"] == "a1"] == ["after", "after", ""]


def test_what_happened_before_somebody_joined_is_told_once() -> None:
    told = Told()
    log = told.logs.open("r1")
    log.begin("t1")
    log.emit("token", {"text": "early"})
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    told.relay.join(log, 0, thread_id="t1", user_id="ben")
    log.emit("token", {"text": " late"})
    log.end(outcome("done", "early late"))
    told.relay.join(log, 0, thread_id="t1", user_id="cy")
    whole = [("CHAT_STREAM", "early"), ("CHAT_STREAM", " late"), ("CHAT", "early late"), ("CHAT_STREAM_END", "")]
    assert told.of("ann") == told.of("ben") == told.of("cy") == whole


def test_a_failure_is_an_apology_and_one_end() -> None:
    told = Told()
    log = told.logs.open("r1")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    log.begin("t1")
    log.end(outcome("failed", error={"code": "model_unavailable", "detail": "The model is away."}))
    assert told.of("ann") == [
        ("CHAT", "I'm sorry, I could not finish this: The model is away."), ("CHAT_STREAM_END", "")
    ]  # fmt: skip


def test_what_is_being_done_is_told_with_an_empty_text_and_masked() -> None:
    told = Told()
    told.relay = Relay(told._send, told._send, Redactor(["hunter2-hunter2"]))
    told.logs.taps[:] = [told.relay.hear]
    log = told.logs.open("r1")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    log.begin("t1")
    log.emit("maid", {"maid_id": "m", "phase": "output", "detail": "hunter2-hunter2"})
    log.end(outcome("done"))
    [(_, first), (_, last)] = told.frames
    assert (first["type"], first["payload"], first["event"]) == ("CHAT_STREAM", "", "maid")
    assert first["data"] == {"maid_id": "m", "phase": "output", "detail": "***"}
    assert last["type"] == "CHAT_STREAM_END"


def test_a_cancelled_turn_says_so_behind_what_it_had_said() -> None:
    told = Told()
    for run_id, reply in (("r1", "half of"), ("r2", "")):
        log = told.logs.open(run_id)
        told.relay.join(log, 0, thread_id="t1", user_id="ann")
        log.begin("t1")
        log.end(outcome("cancelled", reply))
    assert told.of("ann") == [
        ("CHAT", "half of\n\n(This turn was cancelled.)"), ("CHAT_STREAM_END", ""),
        ("CHAT", "This turn was cancelled."), ("CHAT_STREAM_END", ""),
    ]  # fmt: skip


def test_the_own_thread_is_followed_whoever_begins_a_turn_in_it() -> None:
    told = Told()
    told.relay.follow_thread("mine", "ann")
    for thread_id in ("mine", "other"):
        log = told.logs.open(thread_id)
        log.begin(thread_id)
        log.emit("token", {"text": thread_id})
        log.end(outcome("done", thread_id))
    assert told.of("ann") == [("CHAT_STREAM", "mine"), ("CHAT", "mine"), ("CHAT_STREAM_END", "")]


def test_who_is_forgotten_hears_of_nobodys_turns_but_in_its_own_thread() -> None:
    told = Told()
    told.relay.follow_thread("mine", "ann")
    for thread_id in ("mine", "other"):
        log = told.logs.open(thread_id)
        log.begin(thread_id)
        told.relay.join(log, 0, thread_id=thread_id, user_id="ann")
        told.relay.forget("ann")
        log.emit("token", {"text": thread_id})
        log.end(outcome("done", thread_id))
    assert told.of("ann") == [("CHAT_STREAM", "mine"), ("CHAT", "mine"), ("CHAT_STREAM_END", "")]


def test_a_new_connection_gets_the_text_so_far() -> None:
    told, got = Told(), []
    log = told.logs.open("r1")
    told.relay.join(log, 0, thread_id="t1", user_id="ann")
    log.begin("t1")
    for text in "ab":
        log.emit("token", {"text": text})
    told.relay.catch_up("ann", send=lambda _, frame: got.append(frame["payload"]))
    told.relay.catch_up("ben", send=lambda _, frame: got.append(frame["payload"]))
    assert got == ["ab"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["r1", "r2"]), st.sampled_from(["run", "token", "tool", "approval", "parked", "done", "join"]),
        st.sampled_from(["ann", "ben"]),
    ),
    max_size=40,
)  # fmt: skip


@given(STEPS)
def test_each_stream_ends_exactly_once_for_everyone_who_saw_it_and_nothing_comes_after(
    steps: list[tuple[str, str, str]],
) -> None:
    told = Told()
    for run_id, step, user_id in [*steps, ("r1", "done", ""), ("r2", "done", "")]:
        log = told.logs.open(run_id)
        match step:
            case "run":
                log.begin("t")
            case "token":
                log.emit("token", {"text": "x"})
            case "tool":
                log.emit("tool", {"phase": "started"})
            case "approval":
                log.emit("approval", {"action_id": f"{run_id}-a"})
            case "parked":
                log.end(outcome("parked", "x", f"{run_id}-a"))
            case "done":
                log.end(outcome("done", "x"))
            case "join":
                told.relay.join(log, log.position, thread_id="t", user_id=user_id)
    for user_id in ("ann", "ben"):
        frames = [frame for who, frame in told.frames if who == user_id]
        ends = Counter(one["stream_id"] for one in frames if one["type"] == "CHAT_STREAM_END")
        seen = {one["stream_id"] for one in frames}
        assert all(ends[stream_id] == 1 for stream_id in seen)
        for stream_id in seen:
            of_stream = [one["type"] for one in frames if one["stream_id"] == stream_id]
            assert of_stream.index("CHAT_STREAM_END") == len(of_stream) - 1
