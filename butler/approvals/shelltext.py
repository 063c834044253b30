"""A shell's text taken apart into every simple command within it, for rules that ask or refuse.

The reading errs to the safe side: what is not certain is `UNKNOWN`, and what shells read in different ways is
`Unreadable`.
"""

from __future__ import annotations

import re

from butler.approvals.commandline import RESERVED

UNKNOWN = "\0"
"""Stands in a word for a part that only the shell knows: a variable, a substitution, a pattern."""
HOME = "\1"
"""Stands in a word for a ``~``."""

MOST_LEVELS = 40

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<both>&>)
    | (?P<end>[;&|\n]+)
    | (?P<heredoc><<)
    | (?P<process>[<>]\()
    | (?P<redirect>>>|>\||>&|<&|<>|[<>])
    | (?P<open>\()
    | (?P<close>\))
    | (?P<comment>\#)
    | '(?P<single>[^']*+)'
    | (?P<double>")
    | (?P<joined>\\\n)
    | \\(?P<escaped>.)
    | (?P<dollar>\$)
    | (?P<backtick>`)
    | (?P<test>\[\[?(?=[ \t]))
    | (?P<pattern>[*?\[])
    | (?P<empty>\{\})
    | (?P<brace>[{}])
    | (?P<tilde>~)
    | (?P<bare>[^ \t;&|\n<>()\#'"\\$`*?\[{}~]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(
    r"""(?P<run>[^"\\$`]+)|\\(?P<joined>\n)|\\(?P<escaped>[$`"\\])|(?P<slash>\\)|(?P<dollar>\$)|(?P<backtick>`)|(?P<end>")""",
    re.DOTALL,
)
_PARAMETER = re.compile(r"\$(?:\{[^'\"\\$`{}(\n]*+\}|\w+|[@*#?$!-])", re.ASCII)
_BACKTICKS = re.compile(r"`([^`\\]*+)`")
_WHOLE_BRACES = frozenset({"{", "}"})


class Unreadable(Exception):
    """A text whose commands can't be told with certainty."""


def commands_within(text: str, levels: int = MOST_LEVELS) -> list[tuple[str, ...]]:
    """Give the words of every simple command of a text, also of those in substitutions and subshells.

    Redirections are left out; variables set before a program and the shell's own words (``if``, ``{``) are still in.

    Raises:
        Unreadable: quotes or brackets don't close, or shells differ about where a command begins.
    """
    if _CONTROLS.search(text):
        raise Unreadable("control characters")
    reader = _Reader(text, levels)
    reader.code(closing=False)
    return reader.commands


class _Reader:
    """Reads one text from left to right; `commands` grows as they end."""

    def __init__(self, text: str, levels: int) -> None:
        self._text = text
        self._levels = levels
        self._at = 0
        self.commands: list[tuple[str, ...]] = []

    def code(self, *, closing: bool) -> None:
        """Read commands to the end of the text, or to the bracket that ends them (`closing`)."""
        if self._levels <= 0:
            raise Unreadable("nested too deeply")
        self._levels -= 1
        command = _Command()
        while token := _TOKEN.match(self._text, self._at):
            self._at = token.end()
            kind = token.lastgroup or ""
            if kind == "close":
                if not closing:
                    raise Unreadable("a closing bracket alone")
                self._finish(command)
                self._levels += 1
                return
            if kind in {"both", "heredoc"}:
                raise Unreadable(f"shells differ about {token[0]!r}")
            if kind == "end":
                self._finish(command)
                command = _Command()
            elif kind == "open":
                command = self._bracket(command)
            else:
                self._piece(command, kind, token[kind])
        if self._at != len(self._text) or closing:
            raise Unreadable("something does not close")
        self._finish(command)

    def _finish(self, command: _Command) -> None:
        command.end_word()
        if command.words:
            self.commands.append(tuple(command.words))

    def _bracket(self, command: _Command) -> _Command:
        """A subshell, or the brackets of a function's definition, whose name is no command."""
        command.end_word()
        if self._text.startswith(")", self._at) and len(command.words) == 1:
            self._at += 1
            return _Command()
        if not RESERVED.issuperset(command.words):
            raise Unreadable("a bracket within a command")
        self.code(closing=True)
        return _Command()

    def _piece(self, command: _Command, kind: str, part: str) -> None:
        match kind:
            case "blank":
                command.end_word()
            case "redirect":
                command.redirect()
            case "process":
                self.code(closing=True)
                command.add(UNKNOWN)
            case "comment" if not command.in_word:
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            case "single":
                # Some shells let a backslash quote the closing quote.
                if part.endswith("\\"):
                    raise Unreadable("a backslash before a quote")
                command.add(part)
            case "double":
                self._quoted(command)
            case "joined":
                return
            case "dollar":
                if self._text.startswith(("'", "["), self._at):
                    raise Unreadable("shells differ about this")
                command.add(self._dollar())
            case "backtick":
                command.add(self._backticks())
            case "pattern":
                command.add(UNKNOWN)
            case "test":
                command.add(UNKNOWN if command.in_word else part)
            case "tilde":
                command.add(HOME if command.at_home else "~")
            case "brace":
                command.add(part, brace=True)
            case _:
                command.add(part)

    def _quoted(self, command: _Command) -> None:
        command.add("")
        while token := _QUOTED.match(self._text, self._at):
            self._at = token.end()
            match token.lastgroup:
                case "end":
                    return
                case "dollar":
                    command.add(self._dollar())
                case "backtick":
                    command.add(self._backticks())
                case "joined":
                    continue
                case kind:
                    command.add(token[kind or 0])
        raise Unreadable("a quote does not close")

    def _dollar(self) -> str:
        """What follows a ``$`` that was just read."""
        if self._text.startswith("(", self._at):
            self._at += 1
            self.code(closing=True)
            return UNKNOWN
        if parameter := _PARAMETER.match(self._text, self._at - 1):
            self._at = parameter.end()
            return UNKNOWN
        if self._text.startswith("{", self._at):
            raise Unreadable("an expansion with quotes or others within")
        return UNKNOWN if self._text.startswith('"', self._at) else "$"

    def _backticks(self) -> str:
        found = _BACKTICKS.match(self._text, self._at - 1)
        if found is None:
            raise Unreadable("backticks that don't close, or with a backslash")
        self._at = found.end()
        self.commands += commands_within(found[1], self._levels)
        return UNKNOWN


class _Command:
    """The words of a command that is being read."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._parts: list[str] | None = None
        self._braced = False
        self._target = False

    @property
    def in_word(self) -> bool:
        """Whether a word has begun."""
        return self._parts is not None

    @property
    def at_home(self) -> bool:
        """Whether a ``~`` here could mean a home directory."""
        return self._parts is None or self._parts[-1].endswith(("=", ":"))

    def add(self, part: str, *, brace: bool = False) -> None:
        """Append to the word; begin one if need be."""
        if self._parts is None:
            self._parts = []
        self._parts.append(part)
        self._braced = self._braced or (brace and part == "{")

    def redirect(self) -> None:
        """A redirection: a number directly before it and the word after it belong to it."""
        if self._parts is not None and "".join(self._parts).isdecimal():
            self._parts = None
        self.end_word()
        self._target = True

    def end_word(self) -> None:
        """The word is complete."""
        if self._parts is None:
            return
        word = "".join(self._parts)
        # Braces can make several words of one.
        if self._braced and word not in _WHOLE_BRACES:
            word += UNKNOWN
        if self._target:
            self._target = False
        else:
            self.words.append(word)
        self._parts, self._braced = None, False
