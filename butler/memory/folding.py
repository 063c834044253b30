"""What becomes of a model's answer: checked notes merged with those so far, or a reason why nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from butler.memory.answers import Extracted, read_answer
from butler.memory.checks import Fault, cut_to, fault_of_notes, fault_of_text
from butler.memory.claims import Deeds
from butler.memory.grounding import Sources
from butler.memory.notes import SUMMARY_TOKENS, Found, Notes
from butler.memory.quotes import closest, unsaid, unsaid_exactly
from butler.memory.refusals import is_apology
from butler.memory.tokens import count_messages, count_tokens
from butler.memory.words import read
from butler.turn import RUN
from butler.types import ChatMessage, CutText

LEFT_OUT_TOKENS = 40
"""For the line that says how many notes are left out: a full text must not go for its sake."""
MANY = 6
"""From so many notes on, an answer that is mostly repetition comes from a model that does not follow."""


@dataclass(frozen=True)
class Outcome:
    """The notes after a fold of the oldest `messages`.

    `left` counts the notes of the answer that were not taken, by reason.
    """

    notes: Notes
    taken: int
    left: Counter[str]
    messages: int


def fold(answer: str, prefix: Sequence[ChatMessage], notes: Notes) -> Outcome | Fault:
    """Take the answer to a fold request over, as notes or as a free text."""
    if not answer.strip():
        return Fault("empty", "the answer is empty")
    try:
        given = read_answer(answer, cut=isinstance(answer, CutText))
    except ValueError as error:
        return Fault("unreadable", str(error))
    deeds = Deeds(prefix, notes.render())
    if given.notes is None:
        if given.cut:
            return Fault("cut", "the text was cut off at its length limit, so what comes last is missing")
        return _of_text(given.text, prefix, notes, deeds)
    return _of_notes(given.notes, prefix, notes, deeds, cut=given.cut)


def _of_text(text: str, prefix: Sequence[ChatMessage], notes: Notes, deeds: Deeds) -> Outcome | Fault:
    if fault := fault_of_text(text, prefix, notes.told, SUMMARY_TOKENS):
        return fault
    text = cut_to(text, SUMMARY_TOKENS - LEFT_OUT_TOKENS)
    if clause := deeds.false_claim(text):
        return Fault("false_claim", f"the summary claims what never happened: {clause[:120]!r}")
    told = notes.with_told(text)
    said = "\n".join(note.text for note in told.items)
    quotes = [_quote(prefix, at, unsaid_exactly(message, said)) for at, message in _people(prefix)]
    room = count_messages(prefix) + count_tokens(notes.render())
    return Outcome(told.with_quotes(quotes, room).capped(), 1, Counter(), len(prefix))


def _of_notes(
    extracted: Sequence[Extracted], prefix: Sequence[ChatMessage], notes: Notes, deeds: Deeds, *, cut: bool
) -> Outcome | Fault:
    if not extracted:
        return Fault("empty", "the answer has no notes")
    distinct = len({read(note.text).letters for note in extracted})
    if len(extracted) >= MANY and distinct * 2 < len(extracted):
        return Fault("repeats", f"the answer says {distinct} things {len(extracted)} times")
    sources, found, left = Sources(prefix, notes.render()), list[tuple[int, Found]](), Counter[str]()
    other_words: dict[int, list[str]] = {}
    for note in extracted:
        position = sources.find(note.text, None if note.source is None else note.source - 1)
        if position is None or is_apology(str(prefix[position].get("content") or "")):
            left["apology" if is_apology(note.text) else "not_in_talk"] += 1
            if position is None and note.source is not None:
                other_words.setdefault(note.source - 1, []).append(note.text)
        elif deeds.false_claim(note.text, is_wish=note.kind in ("goal", "question")):
            left["false_claim"] += 1
        else:
            role = str(prefix[position].get("role"))
            # What a tool returns is data: a page can set no goal and decide nothing.
            kind = "result" if role == "tool" else note.kind
            found.append((position, Found(kind, note.text, _run_of(prefix, position), role, note.replaces)))
    if not found:
        reason = left.most_common(1)[0][0]
        return Fault(reason, "none of the notes is borne out by the talk")  # type: ignore[arg-type]
    end = _noted_until(prefix, [position for position, _ in found]) if cut else len(prefix)
    taken = [note for position, note in found if position < end]
    merged = notes.merged(taken)
    noted = {position for position, _ in found}
    quotes = _quotes(prefix[:end], noted, other_words, [note.text for note in merged.items])
    merged = merged.with_quotes(quotes, count_messages(prefix[:end]) + count_tokens(notes.render())).capped()
    texts = [note.text for note in taken]
    if fault := fault_of_notes(texts, prefix[:end], notes.render(), merged.render()):
        return fault
    return Outcome(merged, len(taken), left, end)


def _quotes(
    prefix: Sequence[ChatMessage], noted: set[int], other_words: Mapping[int, Sequence[str]], said: Sequence[str]
) -> list[Found]:
    """What the person stated and would be lost: all of a message without a note, of others what a note meant.

    Args:
        noted: the messages that have a note.
        other_words: notes that were not found in the message that they cite.
        said: the notes that there are.
    """
    quotes: list[Found] = []
    for position, message in _people(prefix):
        texts = [unsaid(message, said)]
        if position in noted:
            texts = [unsaid({"content": closest(text, message)}, said) for text in other_words.get(position, ())]
        quotes += [_quote(prefix, position, text) for text in texts]
    return quotes


def _people(prefix: Sequence[ChatMessage]) -> list[tuple[int, ChatMessage]]:
    return [(position, message) for position, message in enumerate(prefix) if message.get("role") == "user"]


def _quote(prefix: Sequence[ChatMessage], position: int, text: str) -> Found:
    return Found("quote", text, _run_of(prefix, position), "user")


def _noted_until(prefix: Sequence[ChatMessage], noted: Sequence[int]) -> int:
    """How many messages an answer that was cut has whole notes of: the turns before that of its last note.

    Where all its notes are of one turn, that turn is taken with what was noted of it, or it would never fold.
    """
    starts = [at for at, message in enumerate(prefix) if at and message.get("role") == "user"]
    before = [at for at in starts if min(noted) < at <= noted[-1]]
    after = [at for at in starts if at > min(noted)]
    return before[-1] if before else after[0] if after else len(prefix)


def _run_of(prefix: Sequence[ChatMessage], position: int) -> str:
    """The run of the turn that a message belongs to."""
    for message in reversed(prefix[: position + 1]):
        if message.get("role") == "user":
            return str(message.get(RUN) or "")
    return ""
