"""Proposed patterns: each covers the call at hand, the first one nothing else, none of them everything (E3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.approvals.grants import args_covered
from butler.approvals.proposals import proposals_for
from butler.argtext import text_of
from butler.types import Json

PIECES = st.text(alphabet="ab/.*?[]!-~ \n:@\\", max_size=12)
TEXTS = PIECES | st.sampled_from(
    ["docs/a.txt", "/etc/passwd", "https://example.com/x?y=1", "http://a@b/c", "git status -s", "a/../b", "~/x/y"]
)
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.lists(TEXTS, max_size=4)
ARGS: st.SearchStrategy[Json] = st.dictionaries(st.sampled_from(["path", "command", "argv", "url"]), VALUES, max_size=3)


@given(args=ARGS, other=ARGS)
def test_every_proposal_covers_the_call_and_the_first_one_no_other(args: Json, other: Json) -> None:
    proposals = proposals_for("act", args, set())
    assert all(args_covered(one.args, one.closed, args) for one in proposals), proposals
    first = proposals[0]
    assert args_covered(first.args, first.closed, other) == _reads_alike(other, args)


def _reads_alike(one: Json, other: Json) -> bool:
    """Globs are on the text of arguments, where ``1`` and ``"1"`` are the same."""
    return {name: text_of(value) for name, value in one.items()} == {
        name: text_of(value) for name, value in other.items()
    }


def wider(name: str, value: Any) -> list[Any]:
    return [one.args[name] for one in proposals_for("act", {name: value}, set())[1:]]


@pytest.mark.parametrize(
    ("name", "value", "patterns"),
    [
        ("path", "docs/a.txt", ["docs/*"]),
        ("path", "/srv/web/[old]/a.txt", []),
        ("path", "/srv/web/index.html", ["/srv/web/*"]),
        ("path", "/etc", []),
        ("path", "../a", []),
        ("path", "~/a", []),
        ("path", "docs/../a/b", []),
        ("url", "https://example.com/a/b?c=d", ["https://example.com/*"]),
        ("url", "https://me@example.com/a", []),
        ("url", "https://example.com", []),
        ("url", "ftp://example.com/a", []),
        ("argv", ["git", "status", "-s"], [["git", "status", "**"]]),
        ("argv", ["git", "-C", "x"], []),
        ("argv", ["ls"], []),
        ("command", "git status -s", [["git", "status", "**"]]),
        ("command", "git status; rm -rf .", []),
        ("command", "cat docs/a.txt", []),
        ("text", "Buy milk", []),
        ("text", "milk and/or eggs", []),
        ("count", 3, []),
    ],
)
def test_the_next_step_is_the_folder_the_host_or_the_subcommand(name: str, value: Any, patterns: list[Any]) -> None:
    assert wider(name, value) == patterns


def test_several_places_widen_one_by_one_and_then_together() -> None:
    found = proposals_for("copy", {"from": "a/b/c", "to": "d/e/f", "mode": "fast"}, set())
    assert [one.args for one in found] == [
        {"from": "a/b/c", "to": "d/e/f", "mode": "fast"},
        {"from": "a/b/*", "to": "d/e/f", "mode": "fast"},
        {"from": "a/b/c", "to": "d/e/*", "mode": "fast"},
        {"from": "a/b/*", "to": "d/e/*", "mode": "fast"},
    ]
    assert all(one.closed for one in found)


def test_secret_arguments_are_left_open_and_never_named() -> None:
    [only] = proposals_for("post", {"text": "hi", "token": "s3cret"}, {"token"})
    assert only.args == {"text": "hi"} and not only.closed and "token" in only.label
    assert proposals_for("post", {"token": "s3cret"}, {"token"}) == []
