"""Lines of a server's output: cut at their ends, never more in memory than a message may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.mcp.limits import Bucket, Flood
from butler.mcp.lines import Lines, TooLong


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"\n")), st.integers(1, 50))
def test_however_it_arrives_the_lines_are_the_same(data: bytes, size: int) -> None:
    lines = Lines(10_000)
    found = [line for start in range(0, len(data), size) for line in lines.feed(data[start : start + size])]
    assert found == data.split(b"\n")[:-1]


@given(st.integers(5_000, 60_000), st.integers(1, 9_000), st.sampled_from(["head", "tail", "none"]))
def test_a_line_that_is_too_long_is_known_by_the_call_that_it_answers(length: int, size: int, where: str) -> None:
    head = b'{"jsonrpc":"2.0","id":17,"result":"' if where == "head" else b'{"result":"'
    tail = b'","id": 17}' if where == "tail" else b'"}'
    data = b"before\n" + head + b"x" * length + tail + b"\nafter\n"
    lines = Lines(4_500)
    found = [line for start in range(0, len(data), size) for line in lines.feed(data[start : start + size])]
    before, long, after = found
    assert (before, after) == (b"before", b"after")
    assert isinstance(long, TooLong)
    assert (long.size, long.request_id) == (len(head) + length + len(tail), None if where == "none" else 17)


def test_a_line_without_an_end_is_a_flood() -> None:
    lines, part = Lines(1 << 20), b"x" * (1 << 23)
    with pytest.raises(Flood, match="256 MiB"):
        for _ in range(40):
            assert list(lines.feed(part)) == []


def test_more_messages_than_anybody_can_use_are_a_flood() -> None:
    bucket = Bucket()
    with pytest.raises(Flood, match="messages at once"):
        for _ in range(10_000):
            bucket.take()
