"""Lines out of a stream of bytes in bounded memory: one that is too long is known only by its ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from butler.mcp.limits import MOST_DROPPED, MOST_MESSAGE, Flood

_END = 4096
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*[,}]')


@dataclass(frozen=True)
class TooLong:
    """A line that was dropped; `request_id` is that of the call which it seems to answer."""

    size: int
    request_id: int | None


class Lines:
    """Cuts what comes into lines of at most `most` bytes."""

    def __init__(self, most: int = MOST_MESSAGE) -> None:
        self._most = most
        self._buffer = bytearray()
        self._head = b""
        self._dropped = 0

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Take the next bytes in, and give the lines that end in them. Raises Flood on one that does not end."""
        while True:
            part, newline, data = data.partition(b"\n")
            self._buffer += part
            if len(self._buffer) > self._most or self._dropped:
                self._drop()
            if not newline:
                return
            if self._dropped:
                yield TooLong(self._dropped, _answered(self._head, bytes(self._buffer)))
            else:
                yield bytes(self._buffer)
            self._buffer.clear()
            self._head, self._dropped = b"", 0

    def _drop(self) -> None:
        """Keep no more than both ends."""
        if not self._dropped:
            self._head = bytes(self._buffer[:_END])
            self._dropped = len(self._buffer)
        else:
            self._dropped += max(0, len(self._buffer) - _END)
        del self._buffer[:-_END]
        if self._dropped > MOST_DROPPED:
            raise Flood(f"it sent a line of more than {MOST_DROPPED >> 20} MiB")


def _answered(head: bytes, tail: bytes) -> int | None:
    """The id beside the message's outermost keys: those who write JSON put it first or last."""
    if first := _ID.search(head[:200]):
        return int(first[1])
    last = _ID.findall(tail[-200:])
    return int(last[-1]) if last else None
