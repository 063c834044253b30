"""Untrusted text on a terminal: every character that could move, hide or reorder others is shown as an escape (A7)."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from butler.unseen import is_unseen

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """The text on one line, with controls, bidi marks, unusual spaces and other unseen characters as escapes.

    The escapes are those of JSON, so that JSON stays the same value.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if _is_unseen(char) else char for char in text)


def harmless_lines(text: str) -> str:
    """The text with its line feeds, each line as `visible` shows it."""
    return "\n".join(visible_lines(text))


def visible_lines(text: str) -> list[str]:
    """The text line by line, each as `visible` shows it."""
    return [visible(line.removesuffix("\r")) for line in text.split("\n")]


def _is_unseen(char: str) -> bool:
    # Unusual spaces too: in columns they could pass for the end of a value.
    return is_unseen(char) or (unicodedata.category(char) == "Zs" and char != " ")


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if ord(char) <= 0xFFFF:
        return f"\\u{ord(char):04x}"
    return json.dumps(char)[1:-1]


def exact_lines(value: Any) -> list[str]:
    """A JSON value, whole and exact: short ones on one line, texts of several lines as one quoted text a line."""
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        *whole, last = value.split("\n")
        return [exact_line(line) for line in [*(f"{line}\n" for line in whole), *([last] if last else [])]]
    if isinstance(value, dict | list) and len(exact_line(value)) > 72:
        return [visible(line) for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n")]
    return [exact_line(value)]


def exact_line(value: Any) -> str:
    """A JSON value on one line."""
    return visible(json.dumps(value, ensure_ascii=False))


def json_document(value: Any) -> str:
    """One JSON document in ASCII, safe to print anywhere."""
    return json.dumps(value, indent=2, ensure_ascii=True).replace("\x7f", "\\u007f")
