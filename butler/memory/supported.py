"""Whether a text that is to be remembered is what the person said: its words, and its yes or no (C6)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from butler.memory.remembered import Spoken, telling
from butler.words import long_forms, normal

MOST_READ = 200_000
"""So many characters of what was said are looked at, the newest first: the writer of the database waits for it."""
_LONGEST_SHOWN = 60
_MOST_CLAUSES = 12
"""Of a text; what goes on after so many counts as one more, or a text of many would take long to compare."""
_DENIALS = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|without"
    r"|nicht|nichts|kein\w*|nie|niemals|niemand\w*|weder|ohne"
    r"|pas|jamais|rien|aucune?|sans|nunca|nada|tampoco|não|nem|sem|non|niente|senza"
    r"|niet|niets|geen|nooit|zonder|ikke|inte|aldrig|bez|не|нет|никогда|ничего|без)\b"
    r"|不|没|沒|無|无|非|别|勿|ない|ません|なし|않|없|못|마세요",
    re.IGNORECASE,
)
_NO_DENIALS = re.compile(
    r"\b(?:do\s+not|never)\s+forget\b|\bno\s+problem\b|不要忘|别忘|忘れないで|잊지\s*마세요"
    r"|非常|不过|不過|不错|不錯|没错|沒錯|不仅|不僅|不但|不同|差不多|对不起|對不起|无论|無論"
    r"|特别|别的|分别|性别|级别|区别|少ない|危ない|かもしれない",
    re.IGNORECASE,
)
_CLAUSE_ENDS = re.compile(r"[.!?;:,\n。！？；：，、]+(?=\s|[^\x00-\x7f]|$)|[。！？；：，、]|\s(?:but|and|aber|und)\s")  # noqa: RUF001


def denials(text: str) -> int:
    """How often a text says no."""
    return len(_DENIALS.findall(_NO_DENIALS.sub(" ", long_forms(text))))


def never_said(text: str, said: Iterable[str]) -> list[str]:
    """What of a text the person never said: words, or a whole clause where they said its opposite.

    Args:
        said: their messages, the newest first; no more of them are read than it takes.
    """
    spoken, parts, left = Spoken(text), _Clauses(text), MOST_READ
    for one in said:
        part = one[:left]
        left -= len(part)
        spoken.hear(part)
        parts.hear(part)
        if left <= 0 or not (spoken.missing() or parts.turned()):
            break
    return list(dict.fromkeys([*spoken.missing(), *parts.turned()]))


class _Clauses:
    """The clauses of a text, and whether those of the person that come closest to each deny as it does."""

    def __init__(self, text: str) -> None:
        split = [clause.strip() for clause in clauses(text)]
        rest = " ".join(split[_MOST_CLAUSES:])
        found = ((clause, telling(clause)) for clause in [*split[:_MOST_CLAUSES], rest])
        self._clauses = [(clause, about, bool(denials(clause))) for clause, about in found if about]
        self._wanted = set[str]().union(*(about for _, about, _ in self._clauses))
        self._best: dict[str, tuple[int, bool]] = {}

    def hear(self, message: str) -> None:
        for said in dict.fromkeys(clauses(message)):
            about = telling(said)
            if self._wanted.isdisjoint(about):
                continue
            for clause, wanted, denied in self._clauses:
                shared = len(wanted & about)
                best, agrees = self._best.get(clause, (1, False))
                if shared > best or (shared == best and not agrees):
                    self._best[clause] = (shared, bool(denials(said)) == denied)

    def turned(self) -> list[str]:
        """The clauses whose opposite was said; of those nobody spoke of, words are missing anyway."""
        turned = [clause for clause, _, _ in self._clauses if not self._best.get(clause, (0, True))[1]]
        return [clause if len(clause) <= _LONGEST_SHOWN else f"{clause[:_LONGEST_SHOWN]}…" for clause in turned]


def clauses(text: str) -> list[str]:
    """The parts of a text that each say one thing, in order."""
    return [clause for clause in _CLAUSE_ENDS.split(normal(text)) if clause.strip()]
