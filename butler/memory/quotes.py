"""What the person stated and no note says is kept in their own words: a short quote (C2, C4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from butler.memory.grounding import text_of
from butler.memory.ranking import is_constraint
from butler.memory.words import Reading, hard_parts, holds, read
from butler.types import ChatMessage

QUOTE_CHARS = 240
"""Of one message."""
MOST_SENTENCES = 40
"""So many sentences of a message are looked at."""
COVERED_SHARE = 0.6
"""A sentence is said already when a note has its names and numbers and this share of its words."""
COVERED_BY_TEXT = 0.34
"""The same for a free text."""
CLOSE_SHARE = 0.3
"""The share of a note's words from which on a sentence is what the note was made of."""
LEAST_SIGNS = 4
LONG_MESSAGE = 2_000
"""Of a message with more characters only the beginning and the end are the person's own: the rest is pasted."""
END_CHARS = 1_000
PASTED_CHARS = 200
"""So much behind "Summarise this mail:" is that mail."""
_SENTENCES = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])|[;\uff1b\n]+")
_QUESTION = re.compile("[?\uff1f][\"'\u201d\u300d)\\]\\s]*$|(?:\u5417|\u5462|\u304b|\u304b\u306a)[\u3002.]?$")
_COMMAND = re.compile(
    r"^(?:(?:and|then|now|so|also|ok|okay|butler)\b[\s,]*)*(?:please|can you|could you|would you|will you|let's|go on|"
    r"tell|show|give|write|read|list|find|search|look|summari[sz]e|translate|explain|open|run|check|send|make|create|"
    r"help|continue|stop|try|do|add|remove|delete|compare|fix|draft|repeat|what|which|who|when|where|why|how|is|are|"
    r"was|were|does|did|should|bitte|kannst du|zeig|schreib|sag|gib|such|such)\b"
    "|^(?:请|請|帮我|幫我|给我|給我|告诉我|告訴我)|(?:ください|下さい|してくれ|教えて|お願いします|お願い)[\u3002.!\uff01]?$",
    re.IGNORECASE,
)
_SMALL_TALK = re.compile(
    r"^(?:hi|hello|hey|thanks|thank you|many thanks|ok|okay|good (?:morning|evening|night)|bye|great|perfect|nice|"
    r"well done|got it|all right|alright|sounds good|hallo|danke|super|gut|merci|gracias)\b[^\d]{0,40}$"
    "|^(?:谢谢|你好|好的|谢了|再见|ありがとう|こんにちは|おはよう|了解|はい|いいえ)[^0-9]{0,12}$",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:from now on|in (?:the )?future|whenever|every time|each time|ab jetzt|künftig|à partir de maintenant)\b"
    "|每次|以后|以後|从现在起|今後|これから|毎回",
    re.IGNORECASE,
)
_TYPED = re.compile(r"/[A-Za-z][\w-]*(?:\s|$)")
_FENCED = re.compile(r"^[ \t]*(```|~~~|\"\"\").*?(?:\1|\Z)", re.MULTILINE | re.DOTALL)
_CITED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_LEADS_IN = re.compile("^(.*)[:\uff1a][ \t]*$", re.MULTILINE)
_MAIL_HEAD = re.compile(
    "^[ \t]*(?:(?:from|von|de):.*@|(?:subject|betreff|objet|\u4e3b\u9898|\u4ef6\u540d)[:\uff1a])",
    re.IGNORECASE | re.MULTILINE,
)
_DOCUMENT = re.compile(
    r"\b(?:e-?mails?|mails?|letters?|message|text|documents?|articles?|pages?|contracts?|logs?|outputs?|transcripts?|"
    r"code|nachricht|dokument|artikel|vertrag)\b|邮件|来信|文章|文件|文档|メール|文書|記事|手紙",
    re.IGNORECASE,
)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_STATED = re.compile(
    r"\b(?:i|i'm|i've|we|we're|my|mine|our|me|us|ich|wir|mein\w*|unser\w*|je|nous|mon|ma|mes)\b|:\s|"
    r"\b(?:is|are|was|has|have|save|store|ist|sind|hat|est|sont)\b|保存|保管",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences of a text, the first `MOST_SENTENCES` of them."""
    return [part.strip() for part in _SENTENCES.split(text[:20_000]) if part.strip()][:MOST_SENTENCES]


def own_words(text: str) -> str:
    """What of a message the person wrote, as far as its form tells: no typed command, no code, nothing pasted."""
    if _TYPED.match(text):
        return ""
    text = _CITED.sub("", _FENCED.sub("", text))
    for lead in _LEADS_IN.finditer(text):
        line, rest = lead[1].strip(), text[lead.end() :]
        if len(rest) >= PASTED_CHARS and (_COMMAND.search(line) or _DOCUMENT.search(line)):
            text = text[: lead.start()]
            break
    if head := _MAIL_HEAD.search(text):
        text = text[: head.start()]
    if len(text) <= LONG_MESSAGE:
        return text
    parts: list[str] = _PARAGRAPHS.split(text.strip())
    return "\n".join([parts[0][:END_CHARS], *(part[-END_CHARS:] for part in parts[1:][-1:])])


def _statements(message: ChatMessage) -> list[str]:
    """The sentences of a person's message that state something, in their own words."""
    return list(filter(states, sentences(own_words(text_of(message)))))


def states(sentence: str) -> bool:
    """Whether a sentence says something, and does not only ask, greet or tell the butler what to do."""
    if sentence.startswith("/") or _QUESTION.search(sentence) or _SMALL_TALK.match(sentence):
        return False
    reading = read(sentence)
    hard = bool(hard_parts(reading))
    lasts = is_constraint(sentence) or _LASTING.search(sentence) or (hard and _STATED.search(sentence))
    if _COMMAND.search(sentence) and not lasts:
        return False
    enough = len(reading.words) >= 2 or len(reading.bigrams) >= LEAST_SIGNS - 1
    return hard or enough or bool(reading.soft and _STATED.search(sentence))


def unsaid(message: ChatMessage, noted: Iterable[str]) -> str:
    """What a person's message states and none of the notes says, in its own words; empty when there is nothing."""
    readings = [read(text) for text in noted]
    return _most([one for one in _statements(message) if not _covered(read(one), readings)])


def unsaid_exactly(message: ChatMessage, text: str) -> str:
    """The same of a free text, which says most in words of its own: only what has to be exact."""
    reading = read(text)
    told = [one for one in _statements(message) if _is_exact(one)]
    return _most([one for one in told if not _covered(read(one), [reading], COVERED_BY_TEXT)])


def _is_exact(sentence: str) -> bool:
    """Whether a sentence has a name, a number or a limit in it; names in signs look like all the rest."""
    reading = read(sentence)
    return bool(hard_parts(reading) or reading.bigrams) or is_constraint(sentence)


def closest(note: str, message: ChatMessage) -> str:
    """The sentence that a note was made of, which says it in other words; empty when there is none."""
    wanted = read(note)
    best, most = "", CLOSE_SHARE
    for sentence in _statements(message):
        reading = read(sentence)
        share = len(wanted.soft & reading.soft) / max(1, len(wanted.soft))
        if share >= most:
            best, most = sentence, share + 1e-9
    return clipped(best)


def _most(told: list[str]) -> str:
    """As many sentences as a quote has room for, in their order; those that limit something come in first."""
    told = list(dict.fromkeys(told))
    kept, left = set[str](), QUOTE_CHARS
    for sentence in sorted(told, key=lambda one: not (is_constraint(one) or _LASTING.search(one))):
        if not kept or len(sentence) < left:
            kept.add(sentence)
            left -= len(sentence) + 1
    return clipped(" ".join(sentence for sentence in told if sentence in kept))


def clipped(text: str) -> str:
    """At most `QUOTE_CHARS` characters on one line, cut between words."""
    text = " ".join(text.split())
    if len(text) <= QUOTE_CHARS:
        return text
    cut = text[: QUOTE_CHARS - 2]
    return f"{cut.rsplit(' ', 1)[0] if ' ' in cut[QUOTE_CHARS // 2 :] else cut} …"


def _covered(sentence: Reading, notes: Sequence[Reading], share: float = COVERED_SHARE) -> bool:
    parts = hard_parts(sentence)
    return any(
        all(holds(note, part) for part in parts) and len(sentence.soft & note.soft) >= share * len(sentence.soft)
        for note in notes
    )
