"""A run is heard to its end over broken connections; signals have their place among its events."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from butler.errors import ButlerError
from butler.types import Json
from service.cli.place import Place
from service.cli.remote import Remote
from service.cli.sse import Event
from service.cli.talk.line import Ask, Item, Line, Word
from service.cli.talk.turn import Turns

SAY = Ask("POST", "/chat", {"message": "hi"})
RUN: Json = {"run_id": "r", "thread_id": "t"}
END: Json = {**RUN, "status": "done", "reply": "", "approvals": [], "error": None}


def frame(seq: int, name: str, data: Json) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, name.encode(), json.dumps(data).encode())


Script = list[bytes | Exception]


class Broken:
    """A server whose streams are scripts: pieces to send, errors to raise. It remembers what it was asked."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.asked: list[tuple[str, str, int]] = []
        self.posted: list[str] = []
        self.place = SimpleNamespace(url="http://here")

    @contextmanager
    def events(self, method: str, path: str, body: Any = None, last_seen: int = 0) -> Iterator[Iterator[bytes]]:
        self.asked.append((method, path, last_seen))
        script = self.scripts.pop(0)
        if script and isinstance(script[0], ButlerError):
            raise script[0]
        yield self._sent(script)

    def _sent(self, script: Script) -> Iterator[bytes]:
        for piece in script:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def look_again(self) -> None:
        self.place.url = "http://there"

    def post(self, path: str, _body: Any) -> Json:
        self.posted.append(path)
        return {}


def hear(server: Broken, ask: Ask = SAY) -> list[Any]:
    heard = Line(cast(Remote, server)).hear(ask)
    return [one.seq if isinstance(one, Event) else one for one in heard]


def test_a_stream_that_breaks_is_joined_behind_the_last_event_at_a_new_address() -> None:
    server = Broken(
        [frame(1, "run", RUN), frame(2, "token", {"text": "a"}), httpx.ReadError("gone")],
        [ButlerError("unreachable", "no Butler")],
        [frame(3, "token", {"text": "b"}), frame(4, "end", END)],
    )
    assert hear(server) == [1, 2, Word.AWAY, Word.BACK, 3, 4]
    assert server.asked == [("POST", "/chat", 0), ("GET", "/runs/r/events", 2), ("GET", "/runs/r/events", 2)]
    assert server.place.url == "http://there"


def test_a_message_that_may_have_been_taken_in_is_never_sent_again() -> None:
    scripts: list[Script] = [[httpx.ReadError("gone")], [], [b": keep-alive\n\n"]]
    for script in scripts:
        server = Broken(script)
        with pytest.raises(ButlerError) as raised:
            hear(server)
        assert raised.value.code == "answer_lost"
        assert len(server.asked) == 1


@pytest.mark.parametrize("code", ["unauthorized", "not_found", "parked", "invalid_request"])
def test_a_refusal_is_told_at_once_also_when_a_run_is_joined_again(code: str) -> None:
    scripts: list[list[Script]] = [[], [[frame(1, "run", RUN)]]]
    for script in scripts:
        with pytest.raises(ButlerError) as raised:
            hear(Broken(*script, [ButlerError(code, "no")]))
        assert raised.value.code == code


def test_what_is_no_run_is_no_reason_to_try_again() -> None:
    with pytest.raises(ButlerError, match="no run"):
        hear(Broken([b"data: nonsense\n\n"]))


def test_a_ctrl_c_is_heard_between_events_and_nothing_is_lost() -> None:
    box: SimpleQueue[Item] = SimpleQueue()
    line = Line(cast(Remote, Broken([frame(1, "run", RUN), frame(2, "end", END)])), box)
    before = signal.getsignal(signal.SIGINT)
    with line.interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        heard = list(line.hear(SAY))
    assert heard[0] is Word.INTERRUPT
    assert [one.seq for one in heard[1:] if isinstance(one, Event)] == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_queued_run_is_heard_from_its_first_event_once_it_begins() -> None:
    told: list[str] = []
    teller = SimpleNamespace(text=told.append, note=lambda _line, whole=True: None, heard=lambda _event: None)
    server = Broken(
        [frame(1, "run", RUN), frame(2, "end", {**END, "status": "queued"})],
        [frame(1, "run", RUN), frame(2, "token", {"text": "first word"}), frame(3, "end", END)],
    )
    turns = Turns(cast(Remote, server), teller)
    assert turns.hear(SAY)["status"] == "queued"
    assert turns.join("r")["status"] == "done"
    assert told == ["first word"]
    assert server.asked[1] == ("GET", "/runs/r/events", 0)


def test_too_many_requests_are_waited_out() -> None:
    answers = iter([
        httpx.Response(429, headers={"Retry-After": "0"}, json={"code": "rate_limited", "detail": "slowly"}),
        httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=frame(1, "end", END)),
    ])  # fmt: skip
    with httpx.Client(transport=httpx.MockTransport(lambda _request: next(answers))) as client:
        place = cast(Place, SimpleNamespace(url="http://here", url_from="a test", token_from="a test"))
        with Remote(place, client).events("POST", "/chat", {}) as chunks:
            assert b"event: end" in b"".join(chunks)
