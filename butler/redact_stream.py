"""Known secrets masked in text that comes in pieces, as in the whole of it (F2, B3)."""

from __future__ import annotations

from butler.redact import MASK, Redactor

STALLED_SECONDS = 0.1
"""After so long without a new piece, `release` is asked what may be shown all the same."""
MOST_RELEASED = 4


class StreamRedactor:
    """Masks one stream of text. What may be the beginning of a secret is held back until more of it is known."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._released = 0

    @property
    def waiting(self) -> int:
        """Characters held back now; always fewer than the longest secret has."""
        return len(self._held) - self._released

    def feed(self, piece: str) -> str:
        """What may be shown now that this piece has come; all pieces, with `rest`, are the masked whole."""
        return self._show(self._held + piece, to_be_continued=True)

    def rest(self) -> str:
        """What was held back, once no more comes."""
        return self._show(self._held, to_be_continued=False)

    def release(self) -> str:
        """What is held back, where it is so little that it tells nothing of a secret; for when no piece comes.

        So a pause of the model does not hide the end of an ordinary word. If it was a secret after all, the rest of it
        is masked.
        """
        if len(self._held) > MOST_RELEASED or self._redactor.reaches_quarter(self._held):
            return ""
        shown, self._released = self._held[self._released :], len(self._held)
        return shown

    def _show(self, text: str, *, to_be_continued: bool) -> str:
        place, released, shown = 0, self._released, list[str]()
        while True:
            begun = self._redactor.unfinished(text, place) if to_be_continued else None
            match = self._redactor.first_match(text, place)
            if match is None or (begun is not None and begun <= match.start()):
                end = len(text) if begun is None else begun
                shown.append(text[max(place, released) : end])
                self._held, self._released = text[end:], max(0, released - end)
                return "".join(shown)
            shown += (text[max(place, released) : match.start()], MASK)
            place = match.end()
