"""Tells by its letters whether a text is in another language than the talk (C3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_OTHER = {
    "cyrillic": re.compile("[\u0400-\u04ff]"), "greek": re.compile("[\u0370-\u03ff]"),
    "arabic": re.compile("[\u0600-\u06ff]"), "hebrew": re.compile("[\u0590-\u05ff]"),
    "thai": re.compile("[\u0e00-\u0e7f]"), "indic": re.compile("[\u0900-\u0dff]"),
}  # fmt: skip
GLUED_WEIGHT = 2.5
"""A Chinese or Japanese character says as much as so many Latin letters."""
LITTLE = 12.0
"""Below so much text nothing can be told."""
MAIN = 0.6
RARE = 0.2
_STOP_WORDS = {
    "english": "the and is are was of to for with that this have has not you will from wants",
    "german": "der die das und ist nicht ein eine mit für den dem von auf ich sie wird hat möchte zu",
    "french": "le la les et est des une pour dans que qui avec pas sur vous il elle du veut au",
    "spanish": "el la los las y es una para con que no por del se quiere en su un",
    "italian": "il la che di e per con non una sono del della vuole è gli un",
    "portuguese": "o os as e é para com que não uma por do da quer em um",
    "dutch": "de het een en van is niet met voor op dat wil aan zijn",
}
_LATIN_WORD = re.compile(r"[a-z\u00df-\u024f]+")
ENOUGH_WORDS = 12


@dataclass(frozen=True)
class Scripts:
    """How much of a text is in which script, by weight."""

    weights: dict[str, float]
    kana_share: float
    total: float

    def share(self, script: str) -> float:
        """The part of the whole, 0 to 1."""
        return self.weights.get(script, 0.0) / self.total if self.total else 0.0


def scripts_of(text: str) -> Scripts:
    """Weigh the scripts of a text."""
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    weights = {name: float(len(pattern.findall(text))) for name, pattern in _OTHER.items()}
    weights["latin"] = float(len(_LATIN.findall(text)))
    weights["glued"] = GLUED_WEIGHT * (han + kana)
    weights["hangul"] = GLUED_WEIGHT * len(_HANGUL.findall(text))
    return Scripts(weights, kana / (han + kana) if han + kana else 0.0, sum(weights.values()))


def language_changed(talk: str, summary: str) -> bool:
    """Whether a summary is in a script, or a language, that is hardly spoken in the talk; mixed talk may be either."""
    said, told = scripts_of(talk), scripts_of(summary)
    if said.total < LITTLE or told.total < LITTLE:
        return False
    for script in said.weights:
        if said.share(script) >= MAIN and told.share(script) < RARE:
            return True
        if told.share(script) >= MAIN and said.share(script) < RARE / 4:
            return True
    if said.share("glued") >= MAIN and told.share("glued") >= MAIN:
        japanese, chinese = said.kana_share > 0.2, said.kana_share < 0.02
        return (japanese and told.kana_share < 0.02) or (chinese and told.kana_share > 0.2)
    if said.share("latin") >= MAIN and told.share("latin") >= MAIN:
        spoken, written = _latin_language(talk), _latin_language(summary)
        return spoken is not None and written is not None and spoken != written
    return False


def _latin_language(text: str) -> str | None:
    """The language whose small words are clearly the most; None where that can't be told."""
    words = _LATIN_WORD.findall(text.casefold())
    if len(words) < ENOUGH_WORDS:
        return None
    counts = sorted(
        ((sum(word in small for word in words), name) for name, small in _SMALL.items()),
        reverse=True,
    )  # fmt: skip
    (most, name), (second, _) = counts[:2]
    return name if most >= 0.15 * len(words) and most >= 2 * second + 2 else None


_SMALL = {name: frozenset(words.split()) for name, words in _STOP_WORDS.items()}
