"""One stretch of a run, told as it happens: words, events beside them, Ctrl-C, lost connections; gives its Outcome."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from butler.errors import ButlerError
from butler.types import Json
from service.cli.plain import visible
from service.cli.remote import Remote
from service.cli.sse import Event
from service.cli.talk.again import Again
from service.cli.talk.line import Ask, Line, Word
from service.cli.talk.words import approval_line, maid_line, tool_line


class Teller(Protocol):
    """Where a turn is told."""

    def text(self, piece: str) -> None:
        """Some more words of the reply."""

    def note(self, line: str, *, whole: bool = True) -> None:
        """A line beside the reply; where there is little room it may be cut unless it is to be `whole`."""

    def heard(self, event: Event) -> None:
        """Every event, before it is told in words."""


class Left(Exception):
    """The person does not want to wait any longer; the run goes on, or is being cancelled."""


class Turns:
    """Tells runs one after the other; remembers how far each was heard, so that it can be joined anew."""

    def __init__(self, server: Remote, teller: Teller) -> None:
        self._server = server
        self._teller = teller
        self._last: dict[str, int] = {}
        self._again: dict[str, Again] = {}

    def join(self, run_id: str) -> Json:
        """Hear the rest of a run, as `hear`."""
        return self.hear(Ask.join(run_id, self._last.get(run_id, 0)))

    def hear(self, ask: Ask) -> Json:
        """Tell a run from that request on; gives its Outcome at its end.

        A first Ctrl-C cancels the run, a second one raises `Left`. Raises: ButlerError as `Line.hear`.
        """
        line = Line(self._server)
        run_id, asked = "", False
        again = Again()
        with line.interruptible():
            for heard in line.hear(ask):
                match heard:
                    case Word.INTERRUPT if asked or not run_id:
                        raise Left
                    case Word.INTERRUPT:
                        asked = True
                        self._cancel(run_id)
                    case Word.AWAY:
                        self._teller.note("the connection broke; trying again (Ctrl-C twice leaves)")
                    case Word.BACK:
                        self._teller.note("connected again")
                        if asked:
                            self._cancel(run_id)
                    case Event():
                        if heard.name == "run":
                            run_id = str(heard.data["run_id"])
                            again = self._again.setdefault(run_id, again)
                        self._last[run_id] = heard.seq
                        self._tell(again, heard)
                        if heard.name == "end":
                            self._ended(run_id, heard.data)
                            return heard.data
        raise ButlerError("unreachable", "The stream ended without an end.")

    def _ended(self, run_id: str, outcome: Json) -> None:
        """A queued run has not begun: its own events will be numbered from the first one."""
        if outcome["status"] == "queued":
            self._last.pop(run_id, None)
            self._again.pop(run_id, None)

    def _cancel(self, run_id: str) -> None:
        self._teller.note("stopping …")
        # Whatever keeps it from being cancelled, the stream goes on and a second Ctrl-C leaves.
        with suppress(ButlerError):
            self._server.post(f"/runs/{run_id}/cancel", {})

    def _tell(self, again: Again, event: Event) -> None:
        again.begins_anew(event)
        self._teller.heard(event)
        match event.name:
            case "token":
                if piece := again.text_of(event):
                    self._teller.text(piece)
            case "notice":
                self._teller.note(f"note: {visible(str(event.data.get('text')))}")
            case "tool" if again.is_news(event):
                if line := tool_line(event.data):
                    self._teller.note(line, whole=False)
            case "maid" if again.is_news(event):
                self._teller.note(maid_line(event.data), whole=False)
            case "approval" if again.is_news(event):
                # Whatever runs beside it goes on; its card comes when the turn has stopped.
                self._teller.note(approval_line(event.data), whole=False)
            case _:
                pass
