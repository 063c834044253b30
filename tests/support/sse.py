"""A server-sent-events reader that gives each event as soon as its bytes are here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One event of a run; `data` is the parsed JSON."""

    id: str
    event: str
    data: Json


@dataclass
class EventStream:
    """The events of one response, kept in `events` as they are read; comments apart."""

    response: httpx.Response
    events: list[Event] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._source = self._parse()

    def __iter__(self) -> Iterator[Event]:
        return self._source

    def until(self, kind: str) -> Event:
        """Read on to the next event of that kind."""
        for event in self._source:
            if event.event == kind:
                return event
        raise AssertionError(f"the stream ended without {kind!r}: {[event.event for event in self.events]!r}")

    def rest(self) -> list[Event]:
        """Read to the end of the stream; give all events of it."""
        for _ in self._source:
            pass
        return self.events

    def kinds(self) -> list[str]:
        """The names of the events so far, in order."""
        return [event.event for event in self.events]

    def text(self) -> str:
        """The tokens so far, joined."""
        return "".join(event.data["text"] for event in self.events if event.event == "token")

    def _parse(self) -> Iterator[Event]:
        kind, number, data = "message", "", list[str]()
        for line in self.response.iter_lines():
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    kind = value
                elif name == "id":
                    number = value
                elif name == "data":
                    data.append(value)
            elif data:
                event = Event(number, kind, json.loads("\n".join(data)))
                self.events.append(event)
                kind, number, data = "message", "", []
                yield event
