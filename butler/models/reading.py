"""Reads the body of one answer, whether it is an event stream or one JSON document."""

from __future__ import annotations

from collections.abc import Callable

from butler.models.failures import cut_off, too_large, unreadable
from butler.models.reply import ReplyBuilder
from butler.models.sse import MAX_LINE_BYTES, SseReader, loads
from butler.types import Json


class BodyReader:
    """Takes reads as they come, fills the builder and shows each piece of text."""

    def __init__(self, builder: ReplyBuilder, on_text: Callable[[str], None]) -> None:
        self._builder = builder
        self._on_text = on_text
        self._events = SseReader()
        self._document: bytearray | None = None
        self._started = False

    @property
    def done(self) -> bool:
        """Whether the server said that nothing follows."""
        return self._events.done

    @property
    def complete(self) -> bool:
        """Whether the answer is whole, even if the connection should break now."""
        return self._events.done or self._builder.finish_reason is not None

    def feed(self, chunk: bytes) -> bool:
        """Take one read; say whether it brought anything but keep-alive comments.

        Raises:
            Fault: the body reports an error, can't be read or grew too large.
        """
        if not self._started:
            chunk = chunk.lstrip(b"\xef\xbb\xbf \r\n\t")
            if not chunk:
                return False
            self._started = True
            if chunk.startswith(b"<"):
                raise unreadable()
            if chunk.startswith((b"{", b"[")):
                self._document = bytearray()
        if self._document is not None:
            self._document += chunk
            if len(self._document) > MAX_LINE_BYTES:
                raise too_large()
            return True
        events = self._events.feed(chunk)
        self._take(events)
        return bool(events) or self.done

    def end(self) -> None:
        """Say that the body is at its end.

        Raises:
            Fault: the answer is not whole.
        """
        if self._document is not None:
            self._show([self._builder.add_whole(loads(bytes(self._document)))])
        else:
            self._take(self._events.end())
        if not self.complete:
            raise cut_off()

    def _take(self, events: list[Json]) -> None:
        shown: list[str] = []
        try:
            for event in events:
                shown.append(self._builder.add(event))
        finally:
            # Also when an error follows in the same read: the text before it did come.
            self._show(shown)

    def _show(self, pieces: list[str]) -> None:
        for text in pieces:
            if text:
                self._on_text(text)
