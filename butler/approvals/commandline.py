"""Text that is certainly one plain command, as its words: what an allowing glob may match (issue 3, policy)."""

from __future__ import annotations

import re


def names(text: str) -> frozenset[str]:
    """Names written one after another, as a set."""
    return frozenset(text.split())


RESERVED = names(
    "! { } [[ ]] if then elif else fi for while until do done case esac select function coproc time in "
    "and or not begin end"
)
"""Words that a shell reads as its own language where a program's name could stand."""

MOST_CHARACTERS = 16_384
"""A longer command is not read: it asks, whatever it is, and holds nobody else up."""

# Every alternative begins differently, so nothing is ever tried twice.
_PIECE = re.compile(
    r"""
      (?P<gap>\x20+)
    | (?P<bare>[^\x20'"\\;|&<>()$`*?\[{}!~\#]+)
    | '(?P<single>[^']*+)'
    | "(?P<double>(?:[^"\\$`!]|\\["\\]|!(?=[\x20="]))*+)"
    | \\(?P<escaped>.)
    | (?P<marks>[~\#])
    | (?P<bang>!)(?=[\x20=]|\Z)
    """,
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\([\"\\])")


def plain_words(text: str) -> tuple[str, ...] | None:
    """Give the words of a text that every POSIX shell, and splitting without a shell, reads as the same one command.

    None for anything else: operators, substitutions, variables, redirections, patterns, comments, control
    characters, unbalanced quotes, a variable set before the program, a word of the shell's own language, great length.
    """
    if len(text) > MOST_CHARACTERS or not text.isprintable():
        return None
    words: list[str] = []
    word: list[str] | None = None
    position = 0
    for piece in _PIECE.finditer(text):
        if piece.start() != position:
            return None
        position = piece.end()
        kind = piece.lastgroup or ""
        part = piece[kind]
        if kind == "gap":
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        if kind == "marks" and not _is_literal(word):
            return None
        # Some shells let a backslash quote the closing quote.
        if kind == "single" and part.endswith("\\"):
            return None
        if kind == "double":
            part = _ESCAPED.sub(r"\1", part)
        if word is None:
            word = []
        word.append(part)
    if position != len(text):
        return None
    if word is not None:
        words.append("".join(word))
    if not words or not words[0] or "=" in words[0] or words[0] in RESERVED:
        return None
    return tuple(words)


def _is_literal(before: list[str] | None) -> bool:
    """Whether ``~`` or ``#`` after this beginning of a word stands for itself."""
    return before is not None and not before[-1].endswith(("=", ":"))
