"""Known secrets masked in text that comes in pieces, as in the whole of it (F2, B3)."""

from __future__ import annotations

from butler.redact import MASK, Redactor


class StreamRedactor:
    """Masks one stream of text. What may be the beginning of a secret is held back until more of it is known."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    @property
    def waiting(self) -> int:
        """Characters held back now; always fewer than the longest secret has."""
        return len(self._held)

    def feed(self, piece: str) -> str:
        """What may be shown now that this piece has come; all pieces, with `rest`, are the masked whole."""
        text = self._held + piece
        shown: list[str] = []
        place = 0
        while True:
            begun = self._redactor.unfinished(text, place)
            match = self._redactor.first_match(text, place)
            if match is None or (begun is not None and begun <= match.start()):
                end = len(text) if begun is None else begun
                shown.append(text[place:end])
                self._held = text[end:]
                return "".join(shown)
            shown += (text[place : match.start()], MASK)
            place = match.end()

    def rest(self) -> str:
        """What was held back, once no more comes."""
        text, self._held = self._redactor.text(self._held), ""
        return text
