"""Numbers that a text says in words or in short: thirty, twenty-five, first, 2k, half past seven, 三十, 3万 (C4)."""

from __future__ import annotations

import re

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_SMALL = {word: number for number, word in enumerate(f"{_UNITS} eighteen nineteen".split())}
_TENS = {
    word: number * 10
    for number, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)  # noqa: SIM905
}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), 1  # noqa: SIM905
    )
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_VALUES = {**_SMALL, **_TENS, **_ORDINALS}
_ENGLISH = re.compile(
    rf"\b(?:{'|'.join([*_VALUES, *_SCALES])})(?:[\s-]+(?:and\s+)?(?:{'|'.join([*_VALUES, *_SCALES])}))*\b"
)
_SHORT = re.compile(r"(\d+(?:\.\d+)?)\s*(k\b|thousand\b|million\b|千|万|萬)")
_SHORT_SCALES = {"k": 1000, "千": 1000, "万": 10_000, "萬": 10_000, **_SCALES}
_PAST = re.compile(r"\b(half|quarter) past (\w+)")
_SIGNS = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {"两": 2, "両": 2, "\u3007": 0}
_GLUED_SCALES = {"十": 10, "百": 100, "千": 1000}
_GLUED = re.compile(f"[{''.join([*_SIGNS, *_GLUED_SCALES])}万萬]+")


def implied_numbers(text: str) -> set[str]:
    """The numbers that a text in small letters implies, in digits."""
    found = {_english(run) for run in _ENGLISH.findall(text)} | {_glued(run) for run in _GLUED.findall(text)}
    found |= {round(float(number[:12]) * _SHORT_SCALES[scale]) for number, scale in _SHORT.findall(text)}
    for part, word in _PAST.findall(text):
        hour = _SMALL.get(word, int(word) if word.isascii() and word.isdigit() and len(word) < 3 else None)
        if hour is not None:
            found |= {hour, hour + 12, 30 if part == "half" else 15}
    return {str(number) for number in found}


def _english(run: str) -> int:
    whole = part = 0
    for word in re.split(r"[\s-]+", run):
        if word in _SCALES and word != "hundred":
            whole, part = whole + max(part, 1) * _SCALES[word], 0
        elif word == "hundred":
            part = max(part, 1) * 100
        else:
            part += _VALUES.get(word, 0)
    return whole + part


def _glued(run: str) -> int:
    whole = part = sign = 0
    for char in run:
        if char in "万萬":
            whole, part, sign = (whole + part + sign or 1) * 10_000, 0, 0
        elif char in _GLUED_SCALES:
            part, sign = part + (sign or 1) * _GLUED_SCALES[char], 0
        else:
            sign = sign * 10 + _SIGNS[char]
        if whole + part + sign > 10**12:
            return 0
    return whole + part + sign
