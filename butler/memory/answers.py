"""What can be read from the answer to a request for notes: notes, also of cut-off JSON, or a free text (C3, C4)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from butler.memory.notes import Kind, kind_of

NOTE_CHARS = 400
"""A longer text is no note; it was copied."""
_FENCE = re.compile(r"\A```\w*\s*(.*?)\s*(?:```)?\Z", re.DOTALL)
_OBJECT_START = re.compile(r"\{\s*\"")
_JSON_START = re.compile(r"\{\s*\"|\[\s*(?:\{\s*\"|\"|\])|\{\s*\}")
_LIST_START = re.compile(r"\{\s*\"notes\"|\[")


@dataclass(frozen=True)
class Extracted:
    """A note as the model gave it; `source` is the number of a message, from 1."""

    kind: Kind
    text: str
    source: int | None
    replaces: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """Notes, or a free text where `notes` is None; `cut` says that more was to come."""

    notes: tuple[Extracted, ...] | None = None
    text: str = ""
    cut: bool = False


def read_answer(text: str, *, cut: bool = False) -> Answer:
    """Read the first JSON that looks like notes, wherever it begins; what has none is a free text.

    Args:
        cut: the answer ended at its length limit; what is whole JSON all the same lacks nothing.

    Raises:
        ValueError: an answer that is JSON as a whole and holds neither notes nor a summary.
    """
    bare = _FENCE.sub(r"\1", text.strip()).strip()
    try:
        given: Any = json.loads(bare)
    except ValueError:
        return _read_mixed(bare, cut)
    if isinstance(given, str):
        return Answer(text=given.strip())
    if isinstance(given, dict) and "notes" not in given:
        if isinstance(given.get("summary"), str):
            return Answer(text=given["summary"].strip())
        given = [given] if _is_note(given) else None
    entries = given.get("notes") if isinstance(given, dict) else given
    if not isinstance(entries, list):
        raise ValueError("the answer has no list of notes")
    return Answer(_notes_of(entries))


def _read_mixed(bare: str, cut: bool) -> Answer:
    """Read what is not JSON as a whole: a preface before it, words after it, an end that is missing."""
    start = _JSON_START.search(bare)
    if start is None:
        return Answer(text=bare, cut=cut)
    rest = bare[start.start() :]
    entries, ended = _whole_objects(rest)
    noted = [entry for entry in entries if _is_note(entry)]
    if not noted:
        if start.start() == 0:
            raise ValueError("the answer is neither notes nor a text")
        return Answer(text=bare, cut=cut)
    return Answer(_notes_of(noted), cut=not ended and (cut or _LIST_START.match(rest) is not None))


def _is_note(entry: Any) -> bool:
    return isinstance(entry, dict) and "text" in entry and ("kind" in entry or "source" in entry)


def _whole_objects(text: str) -> tuple[list[Any], bool]:
    """The objects of a text as far as they are whole, those of a list of notes one by one, and whether a list ended."""
    decoder, found, at, ended = json.JSONDecoder(), list[Any](), 0, False
    while (start := _OBJECT_START.search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, start.start())
        except ValueError:
            at = start.start() + 1
            continue
        notes = value.get("notes") if isinstance(value, dict) else None
        found += notes if isinstance(notes, list) else [value]
        ended = isinstance(notes, list) or text[at:].lstrip().startswith("]")
    return found, ended


def _notes_of(entries: list[Any]) -> tuple[Extracted, ...]:
    return tuple(note for note in map(_extracted, entries) if note is not None)


def _extracted(entry: Any) -> Extracted | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        return None
    kind, text = kind_of(entry.get("kind", "fact")), " ".join(entry["text"].split())
    if kind is None or not text or len(text) > NOTE_CHARS:
        return None
    replaces = entry.get("replaces")
    ids = [number for number in map(_number, replaces if isinstance(replaces, list) else [replaces]) if number]
    return Extracted(kind, text, _number(entry.get("source")), tuple(ids))


def _number(value: Any) -> int | None:
    if isinstance(value, str) and (digits := re.search(r"\d{1,6}", value)):
        return int(digits[0])
    return value if isinstance(value, int) and not isinstance(value, bool) else None
