"""Which headers pass the proxy, and how they are changed (D11)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"trailers", "transfer-encoding", "upgrade"}
)
NOT_SENT = HOP | {"host", "content-length", "authorization", "api-key", "x-api-key", "cookie", "accept-encoding"}
"""What an agent says of itself to us, and not to the provider."""
NOT_GIVEN = HOP | {"content-length", "set-cookie", "server", "date", "alt-svc", "location"}
RETRY = frozenset({"retry-after", "retry-after-ms"})
LONGEST_RETRY = 20.0
"""Seconds that a provider may make an agent wait: some obey an hour without a word."""

Pairs = list[tuple[bytes, bytes]]


def to_provider(headers: Iterable[tuple[bytes, bytes]], key: str | None) -> Pairs:
    """The headers that go on, with the real key; not compressed, so that the tokens can be read."""
    sent = _kept(headers, NOT_SENT)
    if key is not None:
        sent.append((b"authorization", b"Bearer " + key.encode("latin-1", "replace")))
    return [*sent, (b"accept-encoding", b"identity")]


def to_agent(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """The headers that come back, with no wait longer than `LONGEST_RETRY`."""
    given = []
    for name, value in _kept(headers, NOT_GIVEN):
        if name.decode("latin-1").lower() in RETRY:
            value = _shorter(name, value)
        given.append((name, value))
    return given


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds that a provider wants one to wait, as it said them."""
    for name, value in headers:
        if name.lower() == b"retry-after":
            return _seconds(value.decode("latin-1"))
        if name.lower() == b"retry-after-ms" and (wait := _seconds(value.decode("latin-1"))) is not None:
            return wait / 1000
    return None


def _kept(headers: Iterable[tuple[bytes, bytes]], without: frozenset[str]) -> Pairs:
    pairs = [(name.lower(), value) for name, value in headers]
    named = {
        one.strip().lower()
        for name, value in pairs
        if name == b"connection"
        for one in value.decode("latin-1").split(",")
    }
    return [(name, value) for name, value in pairs if name.decode("latin-1") not in without | named]


def _shorter(name: bytes, value: bytes) -> bytes:
    unit = 1000 if name == b"retry-after-ms" else 1
    wait = _seconds(value.decode("latin-1"))
    if wait is not None and wait <= LONGEST_RETRY * unit:
        return value
    return str(int(LONGEST_RETRY * unit)).encode()


def _seconds(text: str) -> float | None:
    """A number, or a date as a distance from now; None for anything else."""
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return max(wait, 0.0) if math.isfinite(wait) else None
