"""Which notes go first when a summary has no room for all: never goals, decisions and constraints (C2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from butler.memory.words import read

if TYPE_CHECKING:
    from butler.memory.notes import Note

ANSWERED = 0.6
"""A question is settled when a later note has this share of its words."""
_CONSTRAINT = re.compile(
    r"\b(must|never|always|only|at most|at least|no more than|cannot|can't|allerg\w*|forbidden|not allowed|deadline|"
    r"budget|vegetarian|vegan|intoleran\w*)\b"
    "|必须|不能|不可|不要|禁止|最多|至少|过敏|预算|截止|素食|してはいけ|禁止|必ず|以内|以下|アレルギー|予算|締め切り|締切|絶対",
    re.IGNORECASE,
)


def order_of_leaving(notes: Sequence[Note]) -> list[int]:
    """The ids in the order in which they may go; the latest goal is not among them."""
    goals = [note.note_id for note in notes if note.kind == "goal"]
    latest = goals[-1] if goals else None
    ranked = sorted((_rank(note, notes), note.uses, note.note_id) for note in notes if note.note_id != latest)
    return [note_id for _, _, note_id in ranked]


@lru_cache(maxsize=2048)
def is_constraint(text: str) -> bool:
    """Whether a fact limits what may be done."""
    return _CONSTRAINT.search(text) is not None


def _rank(note: Note, notes: Sequence[Note]) -> int:
    match note.kind:
        case "question":
            return 0 if _settled(note, notes) else 3
        case "result":
            return 1
        case "quote":
            return 2 if is_constraint(note.text) else 1
        case "fact":
            return 5 if is_constraint(note.text) else 2
        case "summary":
            return 4
        case "decision":
            return 6
        case _:
            return 7


def _settled(question: Note, notes: Sequence[Note]) -> bool:
    asked = read(question.text).soft
    if not asked:
        return False
    later = [note for note in notes if note.note_id > question.note_id and note.kind in ("fact", "decision", "result")]
    return any(len(asked & read(note.text).soft) >= ANSWERED * len(asked) for note in later)
