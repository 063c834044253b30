"""What a command line would start, looked at through ``sudo``, ``env``, ``sh -c`` and their like.

Programs that run others by means of their own (``python -c``, ``make``, aliases of git) are not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from butler.approvals.commandline import MOST_CHARACTERS, RESERVED, names
from butler.approvals.launchers import (
    ADDERS,
    FEEDERS,
    FINDERS,
    LAUNCHERS,
    OWN_WORDS,
    SHELLS,
    TEXT_RUNNERS,
    kind_of,
    name_of,
)
from butler.approvals.shelltext import HOME, UNKNOWN, Unreadable, commands_within

MOST_MARKS = 4
MOST_TEXTS = 6
"""How deep a shell in a shell is looked into."""
MOST_READ = 4 * MOST_CHARACTERS
"""How many characters are read on all levels together, since one text may be read in several ways."""
_EXEC = names("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_WITHOUT_TEXT = frozenset({"case", "function", "coproc", "select", "alias", "hash", "enable"})
_SKIPPED = RESERVED - _WITHOUT_TEXT - {"time", "[[", "]]", "for"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", re.ASCII)
_SPLITS = re.compile(r"-[A-Za-z0]*S|--s")
_REPLACES = re.compile(r"(?:-[0-9a-zA-HJ-Z]*I|--replace=)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Started:
    """The words of one command, and where in them a program's name may stand."""

    words: tuple[str, ...]
    starts: tuple[int, ...]


@dataclass
class _Reading:
    """One look at one command line: what it found, and what it may still read."""

    found: list[Started] = field(default_factory=list)
    left: int = MOST_READ
    read: set[tuple[str, int]] = field(default_factory=set)

    def is_new(self, text: str, levels: int) -> bool:
        """Whether a text is still to be read. Raises Unreadable when that would be too much."""
        if (text, levels) in self.read:
            return False
        self.read.add((text, levels))
        self.left -= len(text) + 1
        if self.left < 0:
            raise Unreadable("too much to read")
        return True


@lru_cache(maxsize=32)
def started_by_text(text: str) -> tuple[Started, ...] | None:
    """Everything that a shell's text would start; None when that can't be told."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        return _look(commands_within(text))
    except Unreadable:
        return None


def started_by_words(words: Sequence[str]) -> tuple[Started, ...] | None:
    """Everything that an argument list would start; None when that can't be told."""
    if sum(map(len, words)) + len(words) > MOST_CHARACTERS or any(UNKNOWN in word or HOME in word for word in words):
        return None
    try:
        return _look([tuple(words)]) if words else ()
    except Unreadable:
        return None


def is_certain(program: str) -> bool:
    """Whether the name of a program is known, whatever the shell puts into the word."""
    return UNKNOWN not in program and HOME not in name_of(program)


def _look(commands: Iterable[tuple[str, ...]]) -> tuple[Started, ...]:
    reading = _Reading()
    for words in commands:
        _look_at(words, MOST_TEXTS, reading)
    return tuple(reading.found)


def _look_at(words: tuple[str, ...], levels: int, reading: _Reading) -> None:
    first = 0
    while first < len(words) and (words[first] in _SKIPPED or _ASSIGNMENT.match(words[first])):
        first += 1
    # A list has no variables before the program: there its first word may be a program with such a name.
    whole = [0] if first and is_certain(words[0]) else []
    if first == len(words):
        reading.found.append(Started(words, tuple(whole)))
        return
    starts = [first, *_after(words, first, len(words))]
    if any(kind_of(words[start]) in _WITHOUT_TEXT for start in starts):
        raise Unreadable("a word that changes what others mean")
    started = {kind_of(words[start]) for start in starts}
    runner = next((start for start in starts if kind_of(words[start]) in TEXT_RUNNERS), None)
    if runner is not None:
        _look_into(words, runner, levels, reading)
    if "env" in started and any(map(_SPLITS.match, words)):
        _look_into(words, first, levels, reading)
    if started & FEEDERS:
        words = _fed(words, starts)
    reading.found.append(Started(words, (*whole, *starts)))


def _after(words: Sequence[str], launcher: int, end: int) -> list[int]:
    """Where the command of a launcher may begin: its options can't be told from the words that belong to them."""
    name = kind_of(words[launcher])
    if name in FINDERS:
        return _after_finder(words, launcher, end)
    starts: list[int] = []
    own = OWN_WORDS.get(name, 0) if name in LAUNCHERS else -1
    place = launcher + 1
    while own >= 0 and place < end:
        word, before = words[place], words[place - 1]
        if not (word.startswith("-") or word in _SKIPPED or _ASSIGNMENT.match(word)):
            starts.append(place)
            name = kind_of(word)
            if name in FINDERS:
                return starts + _after_finder(words, place, end)
            if name in LAUNCHERS:
                own = max(own - 1, OWN_WORDS.get(name, 0))
            elif "=" not in word and (before == "--" or not before.startswith("-") or _has_its_word(before)):
                own -= 1
        place += 1
    return starts


def _has_its_word(option: str) -> bool:
    replaces = _REPLACES.fullmatch(option)
    return replaces is not None and replaces[1] != ""


def _after_finder(words: Sequence[str], finder: int, end: int) -> list[int]:
    places = [place + 1 for place in range(finder + 1, end - 1) if words[place] in _EXEC]
    starts: list[int] = []
    for place, next_place in pairwise([*places, end]):
        starts.append(place)
        if kind_of(words[place]) not in FINDERS:
            starts += _after(words, place, next_place)
    return starts


def _look_into(words: Sequence[str], runner: int, levels: int, reading: _Reading) -> None:
    """Read the arguments of a shell or its like as texts."""
    if levels <= 0:
        raise Unreadable("nested too deeply")
    arguments = [argument.replace(HOME, "~") for argument in words[runner + 1 :]]
    if any(UNKNOWN in argument for argument in arguments):
        raise Unreadable("a text that only the shell knows")
    texts = set()
    if kind_of(words[runner]) not in SHELLS:
        # These put their arguments together before they read them.
        texts.add(" ".join(arguments))
    elif _reads_elsewhere(arguments):
        raise Unreadable("the shell reads its commands from elsewhere")
    for argument in arguments:
        texts.add(argument)
        if argument.startswith("-"):
            texts |= {argument[2:], argument.partition("=")[2], argument.partition("S")[2]}
    # In an order that does not change, so that what is over the bound is the same each time.
    for text in sorted(texts):
        if reading.is_new(text, levels - 1):
            for command in commands_within(text):
                _look_at(command, levels - 1, reading)


def _reads_elsewhere(arguments: Sequence[str]) -> bool:
    """Whether a shell is given neither a text nor a file of its own, so that anything may come in."""
    operands = []
    takes_next = False
    for argument in arguments:
        if takes_next:
            takes_next = False
        elif argument.startswith("--"):
            takes_next = argument in ("--rcfile", "--init-file")
        elif argument.startswith(("-", "+")):
            takes_next = argument.endswith(("o", "O"))
            if "s" in argument:
                return True
        else:
            operands.append(argument)
    return not operands or operands[0].startswith(("/dev/", "/proc/"))


def _fed(words: tuple[str, ...], starts: Sequence[int]) -> tuple[str, ...]:
    """Words that another program fills in or adds are not known."""
    feeder = next(start for start in starts if kind_of(words[start]) in FEEDERS)
    adds = kind_of(words[feeder]) in ADDERS
    if adds and any(kind_of(words[start]) in LAUNCHERS - FEEDERS for start in starts if start > feeder):
        raise Unreadable("the program may come from elsewhere")
    marks = {"{}"}
    for place in range(feeder + 1, len(words)):
        if replaced := _REPLACES.fullmatch(words[place]):
            marks.add(replaced[1] or (words[place + 1] if place + 1 < len(words) else "{}"))
    if len(marks) > MOST_MARKS:
        raise Unreadable("too many words are replaced")
    filled = [UNKNOWN if any(mark in word for mark in marks) else word for word in words[feeder + 1 :]]
    return (*words[: feeder + 1], *filled, *([UNKNOWN] if adds else []))
