"""What waits to be sent over one connection: bounded, nothing lost, text of a stream put together (back-pressure)."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from butler.types import Json
from service.events import to_json

MOST_BYTES = 4 * 1024 * 1024
MOST_FRAMES = 4000
FRAME_BYTES = 400


@dataclass
class _Item:
    frame: Json
    size: int


class Outbox:
    """Frames in order. `seq` counts what is really sent, so a gap would show a loss.

    A reader that is too slow gets the text of a stream in larger pieces and, once far behind, is not told of progress
    (frames with an `event`). One that does not read at all overflows:
    `full` is then set, nothing more is taken in, and the connection has to end.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_frames: int = MOST_FRAMES) -> None:
        self.full = asyncio.Event()
        self._most = most_bytes, most_frames
        self._items: deque[_Item] = deque()
        self._growing: dict[str, _Item] = {}
        self._bytes = 0
        self._seq = 0
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def put(self, frame: Json) -> None:
        """Queue a frame; never blocks."""
        if self.full.is_set():
            return
        progress = "event" in frame
        if progress and (self._bytes > self._most[0] // 2 or len(self._items) > self._most[1] // 2):
            # Whoever is far behind has no use for what was going on then.
            return
        stream_id = str(frame.get("stream_id", "")) if frame["type"] == "CHAT_STREAM" and not progress else ""
        if stream_id and (item := self._growing.get(stream_id)) is not None:
            text = frame["payload"]
            item.frame["payload"] += text
            item.size += len(text)
            self._bytes += len(text)
        else:
            item = _Item(dict(frame), len(to_json(frame)) + FRAME_BYTES)
            if stream_id:
                self._growing[stream_id] = item
            else:
                # Text that comes after this frame may not overtake it.
                self._growing.clear()
            self._items.append(item)
            self._bytes += item.size
        self._filled.set()
        # One frame may be as large as it is.
        if (self._bytes > self._most[0] and len(self._items) > 1) or len(self._items) > self._most[1]:
            self.full.set()

    async def next(self) -> str:
        """Wait for the next frame, and give its text."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        item = self._items.popleft()
        self._growing = {key: one for key, one in self._growing.items() if one is not item}
        self._bytes -= item.size
        self._emptied.set()
        self._seq += 1
        return to_json({**item.frame, "seq": self._seq}).decode()

    async def room(self) -> None:
        """Wait until at most a quarter is taken: for whoever has much to send and can wait."""
        while self._bytes > self._most[0] // 4 or len(self._items) > self._most[1] // 4:
            self._emptied.clear()
            await self._emptied.wait()

    async def drained(self) -> None:
        """Wait until all of it has been taken."""
        while self._items:
            self._emptied.clear()
            await self._emptied.wait()
