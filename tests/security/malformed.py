"""Strategies for decisions that are wrong in one way or another, and never right by chance."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

SCOPES = ("thread", "user", "everyone")
DECISIONS = ("approve", "edit", "reject", "respond")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | TEXTS
ANYTHING = st.recursive(
    SCALARS
    | st.sampled_from(["true", "yes", "approve", "1", 1, 0, "", "x" * 5000, "Approve", "approve\n", " approve"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
# `null` reads like a field that is not there, which is no fault.
NO_TEXT = ANYTHING.filter(lambda value: value is not None and not isinstance(value, str))
NO_OBJECT = ANYTHING.filter(lambda value: value is not None and not isinstance(value, dict))
NO_BOOLEAN = ANYTHING.filter(lambda value: not isinstance(value, bool))
NO_LIST = ANYTHING.filter(lambda value: not isinstance(value, list))
WRONG_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "decision": ANYTHING.filter(lambda value: value not in DECISIONS),
    "args": NO_OBJECT,
    "reason": NO_TEXT,
    "response": ANYTHING.filter(lambda value: value is not None),
    "fingerprint": ANYTHING.filter(lambda value: value is not None),
    "grant": NO_OBJECT | st.fixed_dictionaries({"scope": ANYTHING.filter(lambda value: value not in SCOPES)}),
    "tool": ANYTHING, "approved": ANYTHING, "type": ANYTHING, "status": ANYTHING, "by": ANYTHING,
}  # fmt: skip
"""Values that make an approve wrong, by field; the last ones are wrong for being there."""


@st.composite
def wrong_decision(draw: st.DrawFn) -> dict[str, Any]:
    """An approve with one field that is wrong, or nothing of what it needs."""
    field = draw(st.sampled_from(sorted(WRONG_FIELD)))
    return {"decision": "approve", field: draw(WRONG_FIELD[field])}


def wrong_whole(wrap: Callable[[Any], Any]) -> st.SearchStrategy[Any]:
    """Whole bodies of a face: its own form around a wrong decision, or something else altogether."""
    return wrong_decision().map(wrap) | ANYTHING


def wrong_bytes(right: Any) -> st.SearchStrategy[tuple[bytes, str]]:
    """A right body spoilt as bytes, with the content type to send it under."""
    good = json.dumps(right).encode()
    words = [
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"01",
        b"1_000",
        b"'approve'",
        b"approve",
        b"/**/",
        b"True",
        b'"approve',
    ]
    bytes_no_text_has = [b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x00"]
    deep = [b"[" * 10_000, b'{"decisions":' * 5_000, b'{"a":' * 600 + b"1" + b"}" * 600]
    spoilt = st.one_of(
        st.integers(0, len(good) - 1).map(lambda at: good[:at]),
        st.binary(min_size=1, max_size=8).filter(lambda tail: tail.strip(b" \t\r\n") != b"").map(good.__add__),
        st.sampled_from(["utf-16", "utf-32"]).map(lambda name: json.dumps(right).encode(name)),
        st.sampled_from(bytes_no_text_has).map(lambda byte: good.replace(b"approve", b"approve" + byte)),
        st.sampled_from(words).map(lambda word: good.replace(b'"approve"', word)),
        st.sampled_from(deep),
    )
    types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml"]
    return spoilt.map(lambda body: (body, "application/json")) | st.sampled_from(types).map(lambda kind: (good, kind))
