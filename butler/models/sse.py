"""Splits the bytes of an event stream into its JSON events, wherever the reads happen to cut them."""

from __future__ import annotations

import json

import orjson

from butler.models.failures import Fault, unreadable
from butler.types import Json

MAX_LINE_BYTES = 8_000_000
_DONE = b"[DONE]"


class SseReader:
    """Takes reads, gives events; `done` is set once the server said ``[DONE]``."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._data = b""

    def feed(self, chunk: bytes) -> list[Json]:
        """Give the events that this read completes.

        Raises:
            Fault: the data is no JSON, or a line is longer than `MAX_LINE_BYTES`.
        """
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) + len(self._data) > MAX_LINE_BYTES:
            raise unreadable()
        events: list[Json] = []
        for line in lines:
            self._line(line, events)
        return events

    def end(self) -> list[Json]:
        """Give the event of a last line that no line end follows; a half-written one counts as cut off."""
        events: list[Json] = []
        try:
            self._line(self._rest, events)
            self._line(b"", events)
        except Fault:
            return []
        return events

    def _line(self, line: bytes, events: list[Json]) -> None:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == _DONE:
                self.done = True
            elif self._data:
                self._data += b"\n" + data
            elif data:
                try:
                    _add(orjson.loads(data), events)
                except orjson.JSONDecodeError:
                    self._data = data  # goes on in the next data line, or is not strict JSON
        elif self._data and line in (b"", b"\r"):
            whole, self._data = self._data, b""
            _add(loads(whole), events)


def loads(data: bytes) -> object:
    """Read JSON, also with the NaN and the lone surrogates that some servers write.

    Raises:
        Fault: it is no JSON at all.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise unreadable() from None


def _add(event: object, events: list[Json]) -> None:
    if isinstance(event, dict):
        events.append(event)
