"""JSON that could be read in two ways is not read at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.exactjson import loads_exactly

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"decision": "reject", "decision": "approve"}', "'decision' is given twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "'b' is given twice"),
        ('{"n": NaN}', "NaN is no JSON value"),
        ('{"n": -Infinity}', "-Infinity is no JSON value"),
        ('"\\ud800"', "surrogates not allowed"),
    ],
)
def test_text_that_means_two_things_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        loads_exactly(text)


@given(VALUES)
def test_any_value_survives_writing_and_reading(value: object) -> None:
    assert loads_exactly(json.dumps(value)) == value
