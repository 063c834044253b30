"""Words of any language: what a word is, which signs stand alone (Chinese, Japanese, Korean), what a word's stem is.

The search, the memories and the notes of a fold all read texts with these (C2, C5, C6).
"""

from __future__ import annotations

import re
import unicodedata

MOST_WORDS = 20
LONGEST_WORD = 40
"""More than anyone searches for; the rest of a query is not looked at, since each sign costs a look at all lines."""

SIGNS = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # iteration marks, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
    "\uac00-\ud7af"  # Hangul: endings stick to a word, so its signs are found one by one too
)
"""Scripts without spaces between words, as the inside of a character class."""
_SIGN = re.compile(f"[{SIGNS}]")
_PIECE = re.compile(f"[{SIGNS}]+|[^\\W{SIGNS}]+")
_ENDINGS = ("ings", "ing", "ies", "ied", "ed", "es", "s", "ly", "y", "e")
_CONTRACTED = re.compile(r"\b([a-z]{1,9})n't\b|\b([a-z]{1,12})'(m|re|ve|ll|d)\b|\bcannot\b")
_BARE = re.compile(r"\b(do|does|did|is|are|was|were|has|have|had|should|would|could|must|need|ca|wo)nt\b")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u2032\u00b4`", "'"))
"""What people type for one; the normal form of some of them is a blank with a mark, so they are changed before."""
_ODD_STEMS = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
_LONG_FORMS = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}


def spaced(text: str | None) -> str:
    """The text as it is indexed: one form for wide and narrow letters, a space around every sign.

    What is in the index was made by this very function: a change to it needs a new `INDEX_VERSION`.
    """
    if not text or text.isascii():
        return text or ""
    return _SIGN.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def query_words(query: str) -> list[str]:
    """The words of a query that hold a letter or a number, in order, each once."""
    words = [word[:LONGEST_WORD] for word in unicodedata.normalize("NFKC", query).split()]
    return list(dict.fromkeys(word for word in words if any(map(str.isalnum, word))))[:MOST_WORDS]


def pieces(text: str) -> list[str]:
    """Words of letters and digits, and stretches of signs, in order and without regard to case."""
    return _PIECE.findall(unicodedata.normalize("NFKC", text).casefold())


def stem(word: str) -> str:
    """A word in small letters without its usual ending, so that its common forms meet; numbers stay as they are."""
    if any(map(str.isdigit, word)):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def normal(text: str) -> str:
    """One form for wide and narrow letters and for all apostrophes."""
    return unicodedata.normalize("NFKC", text.translate(_APOSTROPHES))


def long_forms(text: str) -> str:
    """The text in small letters with "don't", "dont" and "do not" all written "do not", and so on."""
    flat = normal(text).casefold()
    return _BARE.sub(_long_form, _CONTRACTED.sub(_long_form, flat))


def _long_form(match: re.Match[str]) -> str:
    head, *rest = match.groups()
    if head is not None:
        return f"{_ODD_STEMS.get(head, head)} not"
    return f"{rest[0]} {_LONG_FORMS[rest[1]]}" if any(rest) else "can not"


def is_signs(piece: str) -> bool:
    """Whether a piece is a stretch of signs."""
    return _SIGN.match(piece) is not None


def bigrams(signs: str) -> list[str]:
    """Pairs of neighbouring signs; a single one stands for itself."""
    return [signs[index : index + 2] for index in range(len(signs) - 1)] or [signs]


def excerpt(text: str, words: list[str], length: int) -> str:
    """About `length` characters of the text around the first of the words that is in it, on one line."""
    flat = " ".join(unicodedata.normalize("NFKC", text).split())
    if len(flat) <= length:
        return flat
    folded = flat.lower()
    found = [place for word in words if (place := folded.find(word.lower())) >= 0]
    start = max(0, min(min(found, default=0) - length // 3, len(flat) - length))
    cut = flat[start : start + length].strip()
    return f"{'…' if start else ''}{cut}{'…' if start + length < len(flat) else ''}"
