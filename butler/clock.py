"""Time as the project writes it: RFC 3339 in UTC with microseconds, so that text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The present moment, time zone UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime | None = None) -> str:
    """Write `moment` (default: now) as fixed-width RFC 3339 text."""
    return (moment or now()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def stamp_in(seconds: float) -> str:
    """The moment `seconds` from now, as text; the far end of time when that is beyond the calendar."""
    try:
        return stamp(now() + timedelta(seconds=seconds))
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z"
