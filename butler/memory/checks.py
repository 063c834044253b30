"""Why an answer must not become the summary: the list of ways in which a fold may go wrong (C3)."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from butler.memory.grounding import text_of
from butler.memory.refusals import is_no_summary
from butler.memory.scripts import language_changed
from butler.memory.tokens import count_messages, count_tokens
from butler.memory.words import hard_parts, holds, read
from butler.types import ChatMessage

Reason = Literal[
    "error", "timeout", "empty", "apology", "longer", "over_budget", "dropped_summary", "language", "false_claim",
    "repeats", "unreadable", "not_in_talk", "cut",
]  # fmt: skip
IN_PLAIN_WORDS: dict[Reason, str] = {
    "error": "the call of the model failed",
    "timeout": "the model took too long",
    "empty": "the model gave no notes",
    "apology": "the model gave an apology, an error or small talk in place of a summary",
    "longer": "the summary would have been longer than what it replaces",
    "over_budget": "the summary was too long",
    "dropped_summary": "the new summary left out much of the one before",
    "language": "the summary was in another language than the talk",
    "false_claim": "the summary claimed something that never happened",
    "repeats": "the model said one thing over and over",
    "unreadable": "the answer of the model could not be read",
    "not_in_talk": "the notes of the model were not found in the talk",
    "cut": "the summary was cut off at its length limit",
}
"""What the person is told who asked for a fold that was refused."""
LONG_TEXT = 400
"""Characters from which on a text that compresses to an eighth is one sentence over and over."""
REPEATED = 3
"""A sentence of some length that comes so often, and is most of the text, is one over and over."""
KEPT_SHARE = 0.66
"""The share of the names, numbers and codes of the old summary that a new one must keep."""
KEPT_LIKENESS = 0.25
"""The share of its words, where it has few of these."""
FEW_PARTS = 3
NEARLY_FULL = 0.8
"""From this share of its budget on, a summary must lose something to take up something new, so it may lose more."""
KEPT_SHARE_OF_FULL = 0.33
MOST_OVER = 2
"""A text of more than so many budgets is refused; one that is a little over is cut."""
_SENTENCES = re.compile("(?:[.!?](?:\\s|$)|[\u3002\uff01\uff1f\n;])+")


@dataclass(frozen=True)
class Fault:
    """Why nothing changed: `reason` is counted, `detail` is logged."""

    reason: Reason
    detail: str


def repeats_itself(text: str) -> bool:
    """Whether a text is mostly one thing over and over."""
    raw = text.encode()
    if len(text) > LONG_TEXT and len(zlib.compress(raw)) * 8 < len(raw):
        return True
    sentences = [part.strip().casefold() for part in _SENTENCES.split(text) if len(part.strip()) > 3]
    if not sentences:
        return False
    sentence, times = Counter(sentences).most_common(1)[0]
    return times >= REPEATED and times * len(sentence) * 2 > sum(map(len, sentences))


def dropped(old: str, new: str, share: float = KEPT_SHARE) -> str | None:
    """What a new free text has lost of the old one, if it keeps less than `share`."""
    if not old:
        return None
    before, after = read(old), read(new)
    parts = hard_parts(before)
    if len(parts) >= FEW_PARTS:
        lost = sorted(part for part in parts if not holds(after, part))
        if len(lost) > (1 - share) * len(parts):
            return f"the summary drops {len(lost)} of {len(parts)} names and numbers of the one before"
        return None
    if before.soft and len(before.soft & after.soft) < KEPT_LIKENESS * len(before.soft):
        return "the summary has nothing of the one before"
    return None


def fault_of_text(text: str, prefix: Sequence[ChatMessage], old: str, budget: int) -> Fault | None:
    """Why a free text must not be used; None when it may. Compaction may never make the context larger."""
    stripped = text.strip()
    if not any(char.isalnum() for char in stripped):
        return Fault("empty", "the summary is empty")
    if is_no_summary(stripped, "\n".join([*map(text_of, prefix), old])):
        return Fault("apology", "the summary reads like an apology, an error or small talk")
    if repeats_itself(stripped):
        return Fault("repeats", "the summary repeats itself")
    size = count_tokens(stripped)
    if size >= count_messages(prefix) + count_tokens(old):
        return Fault("longer", "the summary is longer than what it replaces")
    if size > budget * MOST_OVER:
        return Fault("over_budget", "the summary is over its budget")
    if language_changed(spoken(prefix) or old, stripped):
        return Fault("language", "the summary is in another language than the talk")
    full = count_tokens(old) > NEARLY_FULL * budget
    if lost := dropped(old, stripped, KEPT_SHARE_OF_FULL if full else KEPT_SHARE):
        return Fault("dropped_summary", lost)
    return None


def cut_to(text: str, budget: int) -> str:
    """Leave out whole sentences of a free text until it fits: its beginning stays, and what it says last."""
    if count_tokens(text) <= budget:
        return text
    ends = [match.end() for match in _SENTENCES.finditer(text)]
    head = text[: max((end for end in ends if count_tokens(text[:end]) <= budget // 4), default=0)].rstrip()
    room = budget - count_tokens(head) - 4
    tail = text[min((end for end in ends if count_tokens(text[end:]) <= room), default=len(text)) :]
    return f"{head} … {tail.strip()}".strip() if tail.strip() or head else _cut_anywhere(text, budget)


def _cut_anywhere(text: str, budget: int) -> str:
    """The same for a text without sentences."""
    while count_tokens(text) > budget:
        text = text[: len(text) * 9 // 10]
    return text.rstrip()


def fault_of_notes(texts: Sequence[str], prefix: Sequence[ChatMessage], before: str, after: str) -> Fault | None:
    """Why notes must not be used: `before` and `after` are the summaries they lead from and to."""
    if language_changed(spoken(prefix), "\n".join(texts)):
        return Fault("language", "the notes are in another language than the talk")
    if count_tokens(after) >= count_messages(prefix) + count_tokens(before):
        return Fault("longer", "the notes are longer than what they replace")
    return None


def spoken(prefix: Sequence[ChatMessage]) -> str:
    """What people and the butler said, without what tools returned."""
    return "\n".join(str(message.get("content") or "") for message in prefix if message.get("role") != "tool")
