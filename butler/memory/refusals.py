"""Tells an apology, an error or small talk from a summary (C3)."""

from __future__ import annotations

import re

from butler.memory.words import Reading, hard_parts, holds, read

_APOLOGIES = (
    # English
    "sorry", "i'm sorry", "i am sorry", "we're sorry", "we are sorry", "i apologi", "apologies", "my apologies",
    "i cannot", "i can't", "i can not", "i could not", "i couldn't", "i'm unable", "i am unable", "i was unable",
    "i'm not able", "i am not able", "i won't", "i must decline", "i don't have access", "i do not have access",
    "unfortunately, i", "unfortunately i", "as an ai", "as a language model", "as a large language model",
    # Chinese, Japanese, Korean
    "抱歉", "很抱歉", "非常抱歉", "对不起", "對不起", "不好意思", "我无法", "我無法", "我不能", "作为一个ai", "作为ai",
    "作为一个人工智能", "作为人工智能", "申し訳", "すみません", "ごめんなさい", "恐れ入りますが",
    "私にはできません", "aiとして", "죄송", "미안", "ai로서",
    # German, Dutch, French, Spanish, Italian, Portuguese, Polish, Russian, Turkish
    "es tut mir leid", "tut mir leid", "entschuldigung", "ich kann nicht", "ich kann das nicht", "leider kann ich",
    "als ki", "het spijt me", "ik kan niet", "désolé", "je suis désolé", "je ne peux pas",
    "je m'excuse", "en tant qu'ia", "lo siento", "no puedo", "como ia", "disculpa", "mi dispiace",
    "non posso", "desculpe", "sinto muito", "lamento", "não posso", "przepraszam", "nie mogę", "извините", "простите",
    "к сожалению, я", "я не могу", "üzgünüm", "özür dilerim",
)  # fmt: skip
_ERROR = re.compile(
    r"(?:error|fehler|erreur|错误|エラー)\s*(?:[:\uff1a]|\d{3}\b|[.!]?$)|\w*(?:error|exception):|traceback \("
    r"|<html|<!doctype|rate limit(?:ed|\s+(?:was\s+)?(?:exceeded|reached|hit))|http\S*\s+[45]\d\d\W*$"
    r"|(?:http\S*\s+)?(?:error\s+)?[45]\d\d\W+"
    r"(?:bad|service|too many|gateway|internal|unauthorized|forbidden|not found|request)"
    r"|(?:internal server error|bad gateway|service unavailable|too many requests|gateway time-?out)\W*$",
    re.IGNORECASE,
)
_SUSPECT = re.compile(
    r"apolog|unable to|could ?n[o']t|failed to|sorry|error|timed? ?-?out|try again|too many requests|gateway|"
    r"unavailable|overloaded|exception|traceback|unfortunately|cannot be|went wrong|oops|not have access|decline|"
    r"not allowed|quota|connection (?:refused|reset)",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"(?:sure|hi|hello|hey|ok|okay|got it|of course|certainly|absolutely|understood|noted|thanks|thank you|great|"
    r"no problem|you're welcome|alright|will do|happy to help|how (?:can|may) i|what (?:can|would)|is there anything|"
    r"好的|明白|收到|当然|はい|承知|わかりました|分かりました)(?![\w-])",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?:null|none|nil|nan|undefined|n/?a|ok|okay|sure|yes|no|done|true|false|nothing|<\|.*\|>)\W*", re.I
)
_LABEL = re.compile(r"\W*summary\b[\w\s#.-]{0,30}(?:[:\]]|$)", re.IGNORECASE)
_MARKER = re.compile(r"[^\W\d_]*(?:[A-Z]{2}|\d)|\w-\w")
SHORT_CHARS = 200
"""A longer text is not refused for one word of an error or of small talk in it."""
FEW_WORDS = 3
BORNE_OUT_SHARE = 0.5


def is_apology(text: str) -> bool:
    """Whether a text begins as an apology or a refusal does, in the usual languages."""
    return _head(text).casefold().startswith(_APOLOGIES)


def is_no_summary(text: str, talk: str) -> bool:
    """Whether a whole answer is an apology, an error or small talk; what names things of the talk may speak of errors.

    A text of other words than the talk's is no fault: it may be a summary in a form of its own.
    """
    head = _head(text)
    if is_apology(head) or _ERROR.match(head) or _NOTHING.fullmatch(text.strip()):
        return True
    if len(head) > SHORT_CHARS or _LABEL.match(text):
        return False
    few = len(text.split()) < FEW_WORDS and text.isascii() and not _MARKER.search(text)
    doubtful = few or head.endswith("?") or _SUSPECT.search(head) or _CHATTER.match(head)
    return bool(doubtful) and not _borne_out(read(text), read(talk))


def _head(text: str) -> str:
    return text.strip().lstrip(" \t\r\n*_#>-\"'“「").replace("\u2019", "'")


def _borne_out(reading: Reading, talk: Reading) -> bool:
    """Whether a text holds a name, a number or most of the words of the talk."""
    if any(holds(talk, part) for part in hard_parts(reading)):
        return True
    return bool(reading.soft) and len(reading.soft & talk.soft) >= BORNE_OUT_SHARE * len(reading.soft)
