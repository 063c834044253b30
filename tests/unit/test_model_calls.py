"""Tool calls come together from the pieces of every kind of server."""

from __future__ import annotations

from typing import Any

import pytest

from butler.models.calls import CallPieces

Json = dict[str, Any]
A, B = '{"a":1}', '{"b":2}'
BOTH = [("look", A), ("look", B)]


def piece(name: Any = None, arguments: Any = None, **rest: Any) -> Json:
    return {**rest, "function": {"name": name, "arguments": arguments}}


def gather(*deltas: Any, cut_short: bool = False) -> list[tuple[str, str, str]]:
    """The calls as (id, name, arguments); each delta is the `tool_calls` of one event."""
    pieces = CallPieces()
    for delta in deltas:
        pieces.add(delta)
    calls = pieces.finish(cut_short=cut_short)
    assert len({call.call_id for call in calls}) == len(calls)
    return [(call.call_id, call.name, call.arguments) for call in calls]


SHAPES: dict[str, list[Any]] = {
    "whole calls in one delta, without index and id": [[piece("look", A), piece("look", B)]],
    "whole calls one by one, without index and id": [[piece("look", A)], [piece("look", B)]],
    "every call under index 0, with ids": [
        [piece("look", A, index=0, id="x")],
        [piece("look", B, index=0, id="y")],
    ],
    "every call under index 0, without ids": [[piece("look", A, index=0)], [piece("look", B, index=0)]],
    "ids repeated in each piece": [
        [piece("look", A[:3], index=0, id="x"), piece("look", B[:3], index=1, id="y")],
        [piece(None, A[3:], index=0, id="x"), piece(None, B[3:], index=1, id="y")],
    ],
    "names repeated in each piece": [
        [piece("look", A[:3], index=0, id="x")],
        [piece("look", A[3:], index=0, id="x")],
        [piece("look", B[:3], index=1, id="y")],
        [piece("look", B[3:], index=1, id="y")],
    ],
    "ids instead of indexes": [
        [piece("look", A[:3], id="x"), piece("look", B[:3], id="y")],
        [piece(None, A[3:], id="x"), piece(None, B[3:], id="y")],
    ],
    "neither, with the name in pieces": [
        [piece("lo", "")],
        [piece("ok")],
        [piece(None, A[:3])],
        [piece(None, A[3:])],
        [piece("look")],
        [piece(None, B)],
    ],
    "empty ids after the first piece": [
        [piece("look", index=0, id="x")],
        [piece("", A, index=0, id="")],
        [piece("look", B, index=1, id=None)],
    ],
    "arguments as objects": [[piece("look", {"a": 1}, index=0)], [piece("look", {"b": 2}, index=1)]],
    "phantom pieces at the end": [
        [piece("look", A, index=0, id="x"), piece("look", B, index=1, id="y")],
        [piece("", "", index=2, id="z"), {"index": 3}],
    ],
    "junk between the pieces": [
        "none",
        [None, 3],
        [piece("look", A, index=0)],
        [{"index": 0, "function": 7}],
        [piece("look", B, index=1)],
    ],
    "numbers as ids": [[piece("look", A, index=0, id=1), piece("look", B, index=1, id=2)]],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_of_every_shape_are_put_together(shape: str) -> None:
    calls = gather(*SHAPES[shape])
    assert [(name, arguments) for _, name, arguments in calls] == BOTH
    assert all(call_id for call_id, _, _ in calls)


def test_given_ids_are_kept_and_missing_or_repeated_ones_made() -> None:
    calls = gather([piece("look", A, id="x"), piece("look", B, id="x"), piece("look", A), piece("look", B, id="y")])
    ids = [call_id for call_id, _, _ in calls]
    assert (ids[0], ids[3]) == ("x", "y")
    assert all(made.startswith("call_") and len(made) == 29 for made in ids[1:3])


def test_an_id_that_comes_late_is_taken() -> None:
    assert gather([piece("look", index=0)], [piece(None, A, index=0, id="x")]) == [("x", "look", A)]


def test_no_arguments_mean_an_empty_object() -> None:
    assert gather([piece("look", "", id="x")]) == [("x", "look", "{}")]


def test_calls_without_arguments_in_one_delta_stay_apart() -> None:
    assert [call[1:] for call in gather([piece("look"), piece("look")])] == [("look", "{}")] * 2


def test_arguments_cut_short_stay_malformed() -> None:
    assert gather([piece("look", '{"a": "b', id="x")], cut_short=True) == [("x", "look", '{"a": "b')]
    assert gather([piece("look", "", id="x")], cut_short=True) == [("x", "look", "")]
