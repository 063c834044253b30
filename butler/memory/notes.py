"""What is kept of folded talk: notes that code merges, supersedes and caps, and the summary they make (C2, C4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from butler.memory.ranking import order_of_leaving
from butler.memory.remembered import without_marks
from butler.memory.supported import denials
from butler.memory.tokens import count_tokens
from butler.memory.words import hard_parts, likeness, read
from butler.types import Json

Kind = Literal["fact", "goal", "decision", "question", "result", "summary", "quote"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SUMMARY_TOKENS = 1000
"""What the whole summary may cost, however long the thread is."""
QUOTE_TOKENS = 400
"""What the quotes in it may cost: what the model noted nothing of is mostly small."""
NEARLY_EQUAL = 0.75
SAME_SUBJECT = 0.1
_TITLES: dict[Kind, str] = {
    "goal": "Goals", "decision": "Decisions", "fact": "Facts",
    "quote": "Said by the user, word for word", "question": "Open questions", "result": "Results",
}  # fmt: skip
_AS_QUOTES = re.compile(r"said\s+by\s+the\s+user,?\s+word\s+for\s+word", re.IGNORECASE)
"""A free text is the model's; only code says what a person's own words are."""
_ANSWERS: tuple[Kind, ...] = ("fact", "decision", "result")


@dataclass(frozen=True)
class Note:
    """One thing to remember, word for word as it was first noted.

    `run` and `role` say where it was said: the run of the turn and who spoke. `uses` counts how often it came up.
    """

    note_id: int
    kind: Kind
    text: str
    run: str = ""
    role: str = ""
    uses: int = 1

    def to_json(self) -> Json:
        """As the state keeps it."""
        said = {"run": self.run, "role": self.role}
        return {"id": self.note_id, "kind": self.kind, "text": self.text, "source": said, "uses": self.uses}


@dataclass(frozen=True)
class Found:
    """A note as the model gave it, checked against the talk."""

    kind: Kind
    text: str
    run: str = ""
    role: str = ""
    replaces: tuple[int, ...] = ()


@dataclass(frozen=True)
class Notes:
    """The notes of one thread, oldest first; `left_out` counts those that no longer had room."""

    items: tuple[Note, ...] = ()
    left_out: int = 0
    next_id: int = field(default=1)

    @staticmethod
    def from_state(stored: Sequence[Any] | None, summary: str) -> Notes:
        """Read the state; a thread that has a summary alone gives one note of it."""
        items: list[Note] = []
        left_out, next_id = 0, 1
        for entry in stored or ():
            if "left_out" in entry:
                left_out, next_id = int(entry["left_out"]), int(entry["next_id"])
            else:
                said = entry.get("source") or {}
                items.append(
                    Note(entry["id"], entry["kind"], entry["text"], said.get("run", ""), said.get("role", ""),
                         entry.get("uses", 1))
                )  # fmt: skip
        if not items and summary:
            items.append(Note(1, "summary", summary))
        next_id = max([next_id, *(note.note_id + 1 for note in items)])
        return Notes(tuple(items), left_out, next_id)

    def to_json(self) -> list[Json]:
        """As the state keeps it: plain JSON."""
        return [*(note.to_json() for note in self.items), {"left_out": self.left_out, "next_id": self.next_id}]

    @property
    def told(self) -> str:
        """The text of the free-text part, if there is one."""
        return next((note.text for note in self.items if note.kind == "summary"), "")

    def with_told(self, text: str) -> Notes:
        """A new free text instead of the former one; all other notes stay."""
        rest = tuple(note for note in self.items if note.kind != "summary")
        return Notes((Note(self.next_id, "summary", text), *rest), self.left_out, self.next_id + 1)

    def merged(self, found: Iterable[Found]) -> Notes:
        """Add what is new: what is known only counts once more, what is named and of the same subject is replaced."""
        items, next_id = list(self.items), self.next_id
        for new in found:
            known = next((at for at, note in enumerate(items) if same(note, new)), None)
            gone = {note.note_id for note in items if note.note_id < self.next_id and replaced(note, new)}
            if known is not None:
                gone.discard(items[known].note_id)
                items[known] = replace(items[known], uses=items[known].uses + 1)
            else:
                items.append(Note(next_id, new.kind, new.text, new.run, new.role))
                next_id += 1
            items = [note for note in items if note.note_id not in gone]
        return Notes(tuple(items), self.left_out, next_id)

    def with_quotes(self, quotes: Iterable[Found], room: int) -> Notes:
        """Add quotes as far as they fit `QUOTE_TOKENS` and the summary stays under `room` tokens.

        The older and less important ones go, also those of earlier folds; they are not counted as left out, since
        most of them say nothing that lasts.
        """
        notes = self.merged(quote for quote in quotes if quote.text)
        leaving = order_of_leaving([note for note in notes.items if note.kind == "quote"])
        while leaving and (notes._quoted() > QUOTE_TOKENS or count_tokens(notes.render()) >= room):
            notes = replace(notes._without(leaving.pop(0)), left_out=self.left_out)
        return notes

    def _quoted(self) -> int:
        """The tokens of all quotes."""
        return sum(count_tokens(note.text) + 2 for note in self.items if note.kind == "quote")

    def capped(self, tokens: int = SUMMARY_TOKENS) -> Notes:
        """Leave out what matters least until the summary costs at most so many tokens."""
        notes = self
        leaving = order_of_leaving(notes.items)
        while leaving and count_tokens(notes.render()) > tokens:
            notes = notes._without(leaving.pop(0))
        return notes

    def _without(self, note_id: int) -> Notes:
        rest = tuple(note for note in self.items if note.note_id != note_id)
        return Notes(rest, self.left_out + 1, self.next_id)

    def render(self) -> str:
        """The summary as the model reads it (C1)."""
        parts = [_AS_QUOTES.sub("Said", self.told)] if self.told else []
        for kind, title in _TITLES.items():
            lines = [f"- {note.text}" for note in self.items if note.kind == kind]
            if lines:
                parts.append("\n".join([f"{title}:", *lines]))
        if self.left_out:
            parts.append(f"({self.left_out} older notes are left out here; search_history finds what was said.)")
        return without_marks("\n\n".join(parts))


def same(note: Note, new: Found) -> bool:
    """Whether two notes say the same: the same names, numbers and sense, and nearly the same words."""
    if (note.kind == "question") != (new.kind == "question") or note.kind == "summary":
        return False
    one, other = read(note.text), read(new.text)
    if one.letters == other.letters:
        return True
    return (
        likeness(one, other) >= NEARLY_EQUAL
        and hard_parts(one) == hard_parts(other)
        and denials(note.text) == denials(new.text)
    )


def replaced(note: Note, new: Found) -> bool:
    """Whether a new note may replace one that it names: one kind, or an answer to a question, on one subject."""
    if note.note_id not in new.replaces or (note.kind == "quote" and new.role != "user"):
        return False
    fits = note.kind == new.kind or (note.kind == "question" and new.kind in _ANSWERS)
    fits = fits or {note.kind, new.kind} <= {"fact", "decision", "goal", "quote"}
    one, other = read(note.text), read(new.text)
    shared = one.names & other.names or one.codes & other.codes
    return fits and (bool(shared) or likeness(one, other) >= SAME_SUBJECT)


def kind_of(value: object) -> Kind | None:
    """The kind that a model's word stands for; None for what is none."""
    word = str(value).strip().casefold()
    word = {"constraint": "fact", "preference": "fact", "open question": "question", "task": "goal"}.get(word, word)
    return word if word in KINDS and word not in ("summary", "quote") else None
