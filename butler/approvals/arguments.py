"""What a rule or a grant says about arguments: globs on their text, and lists of globs on a command's words.

What permits (`strict`) matches only text that certainly is one plain command; what asks or refuses matches
whatever the text could start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from butler.approvals.commandline import names, plain_words
from butler.approvals.launchers import name_of
from butler.approvals.lookthrough import Started, is_certain, started_by_text, started_by_words
from butler.approvals.shelltext import HOME, UNKNOWN
from butler.argtext import text_of
from butler.globs import Matcher, compile_glob, covers, is_exact

ArgGlob = str | Sequence[str]
"""A glob on the text of an argument, or one glob per word."""
ArgMatcher = Callable[[Any], bool]

REST = "**"
"""As the last item of a list: any further words, also none."""
_COMMANDS = names("command commands cmd cmdline command_line commandline script shell argv")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FOUND_BEHIND = frozenset({";", "+"})


def is_command(argument: str) -> bool:
    """Whether an argument of this name carries a command that a shell might read."""
    name = _HUMP.sub("_", argument).lower().replace("-", "_")
    return name in _COMMANDS or name.endswith(("_command", "_cmd", "_script"))


def matcher_of(argument: str, glob: ArgGlob, *, strict: bool) -> ArgMatcher:
    """Give a function that tells whether the value of an argument matches."""
    if not isinstance(glob, str):
        words = WordGlobs(glob)
        return words.permits if strict else words.concerns
    matches = compile_glob(glob)
    if not strict or is_exact(glob) or not is_command(argument):
        return lambda value: matches(text_of(value))

    def within_one_command(value: Any) -> bool:
        """A wildcard must not stretch over what a shell reads as more than this one command."""
        text = text_of(value)
        return matches(text) and (_is_list(value) or plain_words(text) is not None)

    return within_one_command


@lru_cache(maxsize=512)
def matcher_of_words(argument: str, globs: tuple[str, ...]) -> ArgMatcher:
    """The permitting matcher of a list, kept: a grant is asked for every call of its tool."""
    return matcher_of(argument, globs, strict=True)


def args_match(globs: Mapping[str, ArgGlob], args: Mapping[str, Any]) -> bool:
    """Tell whether arguments are within what was permitted: every glob matches; a missing argument doesn't."""
    for name, glob in globs.items():
        if name not in args:
            return False
        matches = matcher_of(name, glob, strict=True) if isinstance(glob, str) else matcher_of_words(name, tuple(glob))
        if not matches(args[name]):
            return False
    return True


class WordGlobs:
    """A list of globs, one per word; ``**`` as the last one takes any further words."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._open = globs[-1] == REST
        self._globs = tuple(globs[:-1] if self._open else globs)
        self._matchers: tuple[Matcher, ...] = tuple(map(compile_glob, self._globs))
        self._name = compile_glob(name_of(self._globs[0])) if self._globs else None

    def permits(self, value: Any) -> bool:
        """Whether a list of texts, or a text that is one plain command, matches word by word."""
        words = value if _is_list(value) else plain_words(value) if isinstance(value, str) else None
        if words is None or len(words) < len(self._matchers) or (len(words) > len(self._matchers) and not self._open):
            return False
        if not all(matches(word) for matches, word in zip(self._matchers, words, strict=False)):
            return False
        return not self._globs or self._is_that_program(words[0])

    def _is_that_program(self, program: str) -> bool:
        """A name is not another program of that name in some folder, and a wildcard is no way to another folder."""
        glob = self._globs[0]
        if is_exact(glob):
            return True
        return program.count("/") == glob.count("/") and not {".", ".."} & set(program.split("/")[:-1])

    def concerns(self, value: Any) -> bool:
        """Whether anything that a value could start matches, or whether that can't be told."""
        if not self._globs:
            return True
        started = started_by_words(value) if _is_list(value) else started_by_text(text_of(value))
        return started is None or any(self._concerns(one, start) for one in started for start in one.starts)

    def _concerns(self, started: Started, start: int) -> bool:
        words = started.words
        program = words[start]
        if not is_certain(program):
            return True
        if not (self._matchers[0](program) or (self._name is not None and self._name(name_of(program)))):
            return False
        for place, matches in enumerate(self._matchers[1:], start + 1):
            if place >= len(words):
                return False
            if UNKNOWN in words[place] or HOME in words[place]:
                return True
            if not matches(words[place]):
                return False
        further = words[start + len(self._matchers) :]
        return self._open or all(UNKNOWN in word or word in _FOUND_BEHIND for word in further)


def covers_argument(argument: str, wide: ArgGlob, narrow: ArgGlob, *, wide_strict: bool, narrow_strict: bool) -> bool:
    """Tell whether `wide` certainly matches whatever `narrow` does; False when unsure."""
    if wide_strict and not narrow_strict:
        return False
    if isinstance(wide, str):
        return _text_covers(argument, wide, narrow, wide_strict)
    if isinstance(narrow, str):
        return not wide_strict and tuple(wide) == (REST,)
    return _words_cover(tuple(wide), tuple(narrow))


def _text_covers(argument: str, wide: str, narrow: ArgGlob, wide_strict: bool) -> bool:
    if not isinstance(narrow, str):
        return not wide.strip("*") and bool(wide)
    if not covers(wide, narrow):
        return False
    # A permitting wildcard passes over text that is no plain command; an exact glob may name just that.
    return not (wide_strict and is_command(argument)) or is_exact(wide) or not is_exact(narrow)


def _words_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    if wide == (REST,):
        return True
    if narrow == (REST,):
        return False
    opened = wide[-1] == REST
    fixed = wide[:-1] if opened else wide
    others = narrow[:-1] if narrow[-1] == REST else narrow
    if len(others) < len(fixed) or (not opened and (len(others) > len(fixed) or narrow[-1] == REST)):
        return False
    # A folder counts differently for what permits and what asks.
    first = fixed[0] == others[0] if "/" in fixed[0] + others[0] else covers(fixed[0], others[0])
    return first and all(covers(ours, theirs) for ours, theirs in zip(fixed[1:], others[1:], strict=False))


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
