"""The token bucket: bursts are fine, floods are told to wait, and one caller's flood is not another's (F2)."""

from __future__ import annotations

import pytest

from butler.errors import ButlerError
from service.http.security import RateLimit


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only when a test says so."""
    moment = [100.0]
    monkeypatch.setattr("service.http.security.time.monotonic", lambda: moment[0])
    return moment


def taken(limit: RateLimit, key: str) -> bool:
    """Whether one more request is let in."""
    try:
        limit.take(key)
    except ButlerError as error:
        assert (error.code, error.status) == ("rate_limited", 429)
        return False
    return True


def test_a_burst_is_let_in_and_what_is_over_it_is_refused(clock: list[float]) -> None:
    limit = RateLimit(per_second=2, burst=3)
    assert [taken(limit, "ann") for _ in range(5)] == [True, True, True, False, False]


def test_waiting_earns_requests_up_to_the_burst(clock: list[float]) -> None:
    limit = RateLimit(per_second=2, burst=3)
    assert [taken(limit, "ann") for _ in range(4)] == [True, True, True, False]
    clock[0] += 0.5
    assert [taken(limit, "ann") for _ in range(2)] == [True, False]
    clock[0] += 1000
    assert [taken(limit, "ann") for _ in range(4)] == [True, True, True, False]


def test_one_callers_flood_is_not_anothers(clock: list[float]) -> None:
    limit = RateLimit(per_second=1, burst=1)
    assert taken(limit, "ann") and not taken(limit, "ann")
    assert taken(limit, "bob")


def test_the_memory_of_callers_is_bounded(clock: list[float]) -> None:
    limit = RateLimit(per_second=1, burst=1)
    for number in range(RateLimit.MOST_KEYS + 10):
        limit.take(f"caller {number}")
    assert taken(limit, "caller 0"), "the longest quiet ones are forgotten"
    assert not taken(limit, f"caller {RateLimit.MOST_KEYS + 9}")
