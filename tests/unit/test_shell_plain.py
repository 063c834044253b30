"""Text of strangers on a terminal: nothing moves the cursor, hides or reorders, and nothing is lost."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.cli.plain import exact_lines, json_document, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Füße 日本語", "Füße 日本語"),
        ("\x1b[2J", "\\u001b[2J"),
        ("\x9b1A", "\\u009b1A"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x7f\x00", "\\u007f\\u0000"),
        ("ab\u202egnp.exe", "ab\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("rm\u00a0-rf", "rm\\u00a0-rf"),
        ("a\u200bb\u2028c", "a\\u200bb\\u2028c"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\u3164", "\\u3164"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_can_not_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@settings(deadline=None)
@given(st.text())
def test_no_text_leaves_a_character_that_a_terminal_obeys(text: str) -> None:
    for char in visible(text):
        assert char == " " or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}


@settings(deadline=None)
@given(JSON)
def test_an_exact_value_reads_back_as_the_same_value(value: Any) -> None:
    lines = exact_lines(value)
    if isinstance(value, str):
        assert "".join(json.loads(line) for line in lines) == value
    else:
        assert json.loads("\n".join(lines)) == value


@settings(deadline=None)
@given(JSON)
def test_a_json_document_is_printable_ascii_and_the_same_value(value: Any) -> None:
    text = json_document(value)
    assert all(line.isascii() and line.isprintable() for line in text.split("\n"))
    assert json.loads(text) == value


def test_a_text_of_several_lines_is_shown_line_by_line_with_its_ends() -> None:
    assert exact_lines("one \r\ntwo\n") == ['"one \\r\\n"', '"two\\n"']
