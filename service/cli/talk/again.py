"""What a run says again after a restart, told once: a text that goes on where it was cut is not printed twice."""

from __future__ import annotations

from service.cli.sse import Event
from service.events import EPOCH_SIZE


class Again:
    """Listens to a run's events in order and gives the text that is new in each.

    A server that was started again numbers its events anew (a new *epoch*) and begins an unfinished text from its
    first word. As long as that is the text that was heard already, nothing is to be printed.
    """

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._all = ""
        self._last = ""
        self._held: str | None = None
        self._told: set[tuple[str, ...]] = set()

    def text_of(self, event: Event) -> str:
        """What is to be printed of a `token`."""
        piece = str(event.data.get("text", ""))
        if self._held is None:
            return self._said(piece)
        self._held += piece
        for known in (self._all, self._last):
            if known and known.startswith(self._held):
                return ""
            if known and self._held.startswith(known):
                return self._let_go(self._held[len(known) :])
        return self._let_go(("\n\n" if self._last and not self._last.endswith("\n\n") else "") + self._held)

    def begins_anew(self, event: Event) -> bool:
        """Whether this event is the first one of a new epoch; call it for every event, before the others."""
        epoch = event.seq // EPOCH_SIZE
        anew = self._epoch is not None and epoch > self._epoch
        self._epoch = max(epoch, self._epoch or 0)
        if anew:
            self._held = ""
        return anew

    def is_news(self, event: Event) -> bool:
        """Whether a `tool`, `maid` or `approval` event tells something that was not told yet; a text ends before it."""
        data = event.data
        key = (str(data.get("action_id") or data.get("maid_run_id") or event.seq), "")
        if event.name == "tool":
            key = (key[0], str(data.get("phase")))
        elif event.name == "maid":
            key = (key[0], f"{data.get('attempt')} {data.get('phase')} {data.get('detail')}")
        news = (event.name, *key) not in self._told
        self._told.add((event.name, *key))
        if news:
            self._last, self._held = "", None
        return news

    def _said(self, piece: str) -> str:
        self._all += piece
        self._last += piece
        return piece

    def _let_go(self, piece: str) -> str:
        self._held = None
        return self._said(piece)
