"""One run's events as they come, over broken connections and restarts of the server (http-api, *Streaming*).

The stream is read in a thread of its own and handed over in a queue, so that a signal never loses an event.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from types import FrameType
from typing import Any

import httpx

from butler.errors import ButlerError
from butler.types import Json
from service.cli.remote import Remote
from service.cli.sse import Event, read_events

PATIENCE_SECONDS = 90.0
"""How long a server may be away in the middle of a run."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Word(Enum):
    """What is heard beside events."""

    INTERRUPT = "a Ctrl-C"
    AWAY = "the connection is gone and is tried again"
    BACK = "it is there again"


Heard = Event | Word
Item = Heard | Exception | None


@dataclass(frozen=True)
class Ask:
    """The request that opens the first stream; `last_seen` where the run was heard up to that event."""

    method: str
    path: str
    body: Any = None
    last_seen: int = 0

    @classmethod
    def join(cls, run_id: str, last_seen: int = 0) -> Ask:
        """Join a run anew."""
        return cls("GET", f"/runs/{run_id}/events", None, last_seen)


class Line:
    """Hears one run from the request that begins it to its `end`."""

    def __init__(self, server: Remote, box: SimpleQueue[Item] | None = None) -> None:
        self._server = server
        self._box: SimpleQueue[Item] = box or SimpleQueue()
        self._left = threading.Event()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Meanwhile a Ctrl-C is heard as `Word.INTERRUPT` in its place instead of breaking in anywhere."""

        def tell(_number: int, _frame: FrameType | None) -> None:
            self._box.put(Word.INTERRUPT)

        before = signal.signal(signal.SIGINT, tell)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def hear(self, ask: Ask) -> Iterator[Heard]:
        """Everything up to and with the `end`. Raises ButlerError, as `Remote.events` and ``answer_lost``."""
        reader = threading.Thread(target=self._read, args=(ask,), name="butler-events", daemon=True)
        reader.start()
        try:
            while (item := self._box.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self._left.set()

    def _read(self, ask: Ask) -> None:
        try:
            self._read_all(ask)
        except Exception as error:  # it is raised where the events are heard
            self._box.put(error)
        else:
            self._box.put(None)

    def _read_all(self, ask: Ask) -> None:
        run: Json | None = None
        last, away_since, pause = ask.last_seen, None, FIRST_PAUSE
        while not self._left.is_set():
            why = "the stream ended too early"
            try:
                with self._server.events(ask.method, ask.path, ask.body, last) as chunks:
                    for event in read_events(chunks):
                        if away_since is not None:
                            self._box.put(Word.BACK)
                            away_since, pause = None, FIRST_PAUSE
                        if event.name == "run":
                            run = event.data
                        last = event.seq
                        self._box.put(event)
                        if event.name == "end" or self._left.is_set():
                            return
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            except ValueError as error:
                raise ButlerError("answer_lost", f"What {self._server.place.url} says is no run: {error}.") from None
            except ButlerError as error:
                if run is None or not _may_pass(error):
                    raise
                why = error.detail
            if run is None and ask.method == "POST":
                raise _unheard(self._server, why)
            if away_since is None:
                away_since = time.monotonic()
                self._box.put(Word.AWAY)
            elif time.monotonic() - away_since > PATIENCE_SECONDS:
                raise ButlerError("answer_lost", f"The connection broke and did not come back: {why} The turn goes on.")
            self._left.wait(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
            self._server.look_again()
            if run is not None:
                ask = Ask.join(run["run_id"])


def _may_pass(error: ButlerError) -> bool:
    """Whether a server that is being started again may say so."""
    return error.code in ("unreachable", "rate_limited", "internal")


def _unheard(server: Remote, why: str) -> ButlerError:
    return ButlerError(
        "answer_lost",
        f"The connection to {server.place.url} broke before it was told whether this was taken in ({why}). "
        "`butler threads` shows what was.",
    )
