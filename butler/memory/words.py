"""Reads texts so that they can be compared: words, names, numbers, codes, and bigrams where no spaces are.

What a word, a sign and a stem is says `butler.words`; here is what a text holds of them.

It works without a dictionary or a tokenizer, for Latin and other alphabets, Chinese, Japanese and Korean (C2).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from butler import words as common
from butler.memory.numberwords import implied_numbers
from butler.words import SIGNS, bigrams

_RUN = re.compile(f"[{SIGNS}]+")
_WORD = re.compile(f"[^\\W\\d_{SIGNS}]+")
_MARKS = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CODE = re.compile(r"(?:~?/|\./)?[A-Za-z0-9][A-Za-z0-9._/\\@:+#~-]*[A-Za-z0-9/]")
_IS_CODE = re.compile(r"[/\\@_]|[A-Za-z]-?\d|\w\.[A-Za-z]{2,5}$")
_MEASURE = re.compile(r"\d[\d.,:]*-?[a-z]{1,4}")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_SENTENCE = re.compile(r"[.!?:\n•]\s*[\"'“(*-]*\s*$")
# Who speaks is told in other words by every summary.
_SPEAKERS = re.compile(
    "用户|使用者|助手|管家|我的|我们|我|您|你|ユーザーさん|ユーザー|ユーザ|アシスタント|執事|私たち|私|사용자|저는|나는"
)
_STOP = frozenset(
    """
    the and for are was were has have had will would can could should shall may might must not but with from into that
    this these those there here they them their his her hers its our ours your yours you she him who whom what which
    when where why how than then also just only very more most some any all been being does did done doing about over
    under onto out off per via user users butler assistant person said says say asked asks ask told tells mentioned
    wants want wanted like likes one
    """.split()  # noqa: SIM905 - a list of quoted words would be three times as long
)
# With these a sentence may begin although the talk has other words for it; any other first word is like a name.
_STARTERS = frozenset(
    """
    need needs prefer prefers plan plans look looks seek seeks hope hopes intend intends has have had is are works lives
    travels travel trip journey budget goal deadline date time name person people family reminder request question
    open decided decision found result results constraint preference avoid keep save remember use total overall whole
    current new next first last every each no not yes a an it its if at in on to of by as two three four five six
    """.split()  # noqa: SIM905
)
# Names of what is told, before a colon or alone: who says it in these words has said no name.
_LABELS = frozenset(
    """
    residence residences home hometown address city town country location place origin age birthday birthdate birth
    job occupation profession employer employed workplace company position role title salary income phone telephone
    mobile email mail contact allergy allergies allergic diet dietary food likes dislikes hobby hobbies interest
    interests language languages nationality religion status married single children child kids pet pets car vehicle
    hotel flight train departure arrival start end duration number amount price cost costs limit maximum minimum
    resides residing resident based located born owns owner speaks
    """.split()  # noqa: SIM905
)
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), 1,
    )
    for name in names.split()
}  # fmt: skip
_COUNTS = {
    word: number
    for number, words in enumerate(
        ("one 一", "two 二 两 両", "three 三", "four 四", "five 五", "six 六", "seven 七", "eight 八", "nine 九",
         "ten 十", "eleven 十一", "twelve 十二 dozen"), 1,
    )
    for word in words.split()
}  # fmt: skip
_GLUED_COUNT = re.compile("十[一二]|[一二两両三四五六七八九十]")
_STEM = 6
SHORT_CHARS = 1_000
"""A note, a quote, a sentence: what is compared again and again."""
_MOSTLY_CAPITAL = 0.25
"""From this share of capitals inside sentences on, as in German, a capital marks no name."""


@dataclass(frozen=True)
class Reading:
    """What a text holds.

    `begins` are words that begin a sentence, which may be names. `letters` is the text without spaces and marks,
    `soft` all words and bigrams: what may be put differently.
    `numbers` has the ways to understand each number, `known_numbers` those that words imply too.
    """

    text: str
    letters: str
    soft: frozenset[str]
    words: frozenset[str]
    bigrams: frozenset[str]
    names: frozenset[str]
    begins: frozenset[str]
    numbers: tuple[frozenset[str], ...]
    known_numbers: frozenset[str]
    codes: frozenset[str]


def read(text: str) -> Reading:
    """Read a text; a short one again costs nothing. Long ones are not kept, or they would fill the memory."""
    return _read_once(text) if len(text) <= SHORT_CHARS else _read(text)


def _read(text: str) -> Reading:
    whole = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    flat = whole.casefold()
    codes = frozenset(code.casefold() for code in _codes(whole))
    numbers = tuple(_ways(number) for number in dict.fromkeys(_NUMBER.findall(_without(flat, codes))))
    words = [word.casefold() for word in _WORD.findall(whole)]
    runs = _RUN.findall(_SPEAKERS.sub(" ", whole))
    implied = {str(_MONTHS[word]) for word in words if word in _MONTHS}
    implied |= {str(_COUNTS[word]) for word in words if word in _COUNTS}
    implied |= {str(_COUNTS[found]) for run in runs for found in _GLUED_COUNT.findall(run)}
    implied |= implied_numbers(flat)
    in_codes = {way for number in _NUMBER.findall(flat) for way in _ways(number)}
    telling = frozenset(stem(word) for word in words if len(word) > 2 and word not in _STOP)
    pairs = frozenset(pair for run in runs for pair in bigrams(run))
    names, begins = _names(whole)
    return Reading(
        text=flat,
        letters=_MARKS.sub("", flat),
        soft=telling | pairs,
        words=telling,
        bigrams=pairs,
        names=names,
        begins=begins,
        numbers=numbers,
        known_numbers=frozenset(implied | in_codes),
        codes=codes,
    )


_read_once = lru_cache(maxsize=2048)(_read)


def stem(word: str) -> str:
    """Cut a word so that its common forms meet."""
    return common.stem(word)[:_STEM]


def likeness(one: Reading, other: Reading) -> float:
    """The share of words and bigrams that two texts have in common, 0 to 1."""
    both = len(one.soft | other.soft)
    return len(one.soft & other.soft) / both if both else float(one.text == other.text)


def hard_parts(reading: Reading) -> set[str]:
    """Names, numbers and codes: what must stay exact."""
    return {*reading.names, *reading.codes, *(max(ways, key=len) for ways in reading.numbers)}


def holds(reading: Reading, part: str) -> bool:
    """Whether a text has a hard part of another."""
    return part in reading.words or part in reading.known_numbers or part in reading.text


def joined(readings: Iterable[Reading]) -> Reading:
    """Several texts as one."""
    return read("\n".join(reading.text for reading in readings))


def _codes(text: str) -> list[str]:
    found = (code.rstrip(".:-") for code in _CODE.findall(text))
    return [code for code in found if _IS_CODE.search(code) and not _MEASURE.fullmatch(code)]


def _without(text: str, codes: frozenset[str]) -> str:
    """The text without its codes, in one pass: a log may have thousands of them."""

    def rest(match: re.Match[str]) -> str:
        code = match[0].rstrip(".:-")
        return f" {match[0][len(code) :]}" if code in codes else match[0]

    return _CODE.sub(rest, text)


def _ways(number: str) -> frozenset[str]:
    """The ways to understand one number as written: 1,200 and 1.200 may be thousands, 07 is 7."""
    ways = {_plain(number.replace(",", "."))}
    if _THOUSANDS.fullmatch(number):
        ways.add(_plain(re.sub("[.,]", "", number)))
    return frozenset(ways)


def _plain(number: str) -> str:
    whole, point, part = number.partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}.{part}" if point and part else whole


def _names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Stems of the words that have a capital inside a sentence, and of those that begin one."""
    names: list[str] = []
    begins: list[str] = []
    inside = 0
    for match in _WORD.finditer(text):
        word, before = match[0], text[max(0, match.start() - 6) : match.start()]
        if (not before.strip() and match.start() <= 1) or _SENTENCE.search(before):
            first = word.casefold()
            known = first in _STOP or first in _STARTERS or first in _LABELS
            if len(word) > 1 and word[0].isupper() and not known:
                begins.append(stem(first))
            continue
        inside += 1
        if word[0].isupper() and len(word) > 1 and word.casefold() not in _STOP:
            names.append(stem(word.casefold()))
    if inside > 8 and len(names) > inside * _MOSTLY_CAPITAL:
        return frozenset(), frozenset()
    return frozenset(names), frozenset(begins)
