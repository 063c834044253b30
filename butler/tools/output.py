"""What a tool printed, in bounded memory: the beginning and the end of however much it was."""

from __future__ import annotations

LIMIT = 64 * 1024
TAIL = 8 * 1024


class Output:
    """Keeps all bytes up to a limit, and beyond it the first and the last half of the limit."""

    def __init__(self, limit: int = LIMIT, tail: int = TAIL) -> None:
        self._limit = limit
        self._half = limit // 2
        self._end = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 4 * self._limit:
            del self._tail[: -self._half]

    @property
    def is_cut(self) -> bool:
        """Whether there was more than the limit."""
        return self.total > self._limit

    def text(self) -> str:
        """Give everything, or beginning and end with a line between them that says how much is missing."""
        if not self.is_cut:
            return _decode(self._head + self._tail)
        end = self._tail[-self._half :]
        missing = self.total - len(self._head) - len(end)
        note = f"\n[output cut: {missing} of {self.total} bytes left out here]\n"
        return _decode(self._head) + note + _decode(end)

    def beginning(self) -> str:
        """Give the first bytes up to the limit and say if there was more; for what is not read on."""
        text = _decode((self._head + self._tail)[: self._limit])
        return f"{text}\n[output cut after {self._limit} bytes]" if self.is_cut else text

    def tail(self) -> str:
        """Give the last bytes, 8 KiB if not told otherwise, and say if there was more."""
        kept = self._tail if self.is_cut else self._head + self._tail
        end = self._end
        note = "" if self.total <= end else f"[output cut: only the last {end} of {self.total} bytes]\n"
        return note + _decode(kept[-end:])


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
