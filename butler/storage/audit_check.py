"""Is the chain of the audit whole? Finds the first row that was altered, removed, put in or cut off (A9)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from butler.errors import ButlerError
from butler.storage.audit import CHAINED, chained_hash
from butler.types import Json

FaultKind = Literal["altered", "missing", "inserted", "truncated", "headless", "open"]
TRIGGERS = ("audit_is_never_changed", "audit_is_never_deleted", "audit_is_never_replaced")


@dataclass(frozen=True)
class Head:
    """A place in the chain: the number of a row and its hash; written ``SEQ:HASH``."""

    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read what `str` wrote. Raises ButlerError ``invalid_request``."""
        seq, _, digest = text.strip().partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 19 and len(digest) == 64):
            raise ButlerError("invalid_request", f"A head reads SEQ:HASH, as `butler audit verify` prints it: {text!r}")
        return cls(int(seq), digest.lower())

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


BEGINNING = Head(0, "")


@dataclass(frozen=True)
class Fault:
    """The first thing that is wrong: at which row, and in words."""

    kind: FaultKind
    seq: int
    detail: str


@dataclass(frozen=True)
class Report:
    """What a check found: how many rows hold together, where they end, and what is wrong behind them."""

    count: int
    head: Head
    fault: Fault | None = None
    masked: tuple[int, ...] = ()
    """Rows whose data was masked in an export: all of them was checked but that."""
    trusted: int | None = None
    """The first row of a part of the audit, whose own content nothing vouches for."""


def verify(
    rows: Iterable[Json], *, after: Head | None = BEGINNING, head: Head | None = None, noted: Head | None = None
) -> Report:
    """Follow the chain through `rows`, as they come, up to the first fault.

    Args:
        after: where the row before the first one stands; None takes the first row on trust.
        head: where the chain must end.
        noted: a head of earlier days that must still be in the chain.
    """
    last, count, trusted = after, 0, None
    masked: list[int] = []

    def told(fault: Fault | None) -> Report:
        return Report(count, _end(last), fault, tuple(masked), trusted)

    for row in rows:
        seq, digest = row["seq"], row["hash"]
        if type(seq) is not int or type(digest) is not str:
            at = _end(last).seq + 1
            return told(Fault("altered", at, f"row {at} has no number or no hash"))
        if last is None:
            trusted = seq
        elif (fault := _misplaced(seq, last, head)) is not None:
            return told(fault)
        elif not _fits(row, last.hash):
            return told(Fault("altered", seq, f"row {seq} is not what was written, or another row stands in its place"))
        if row.get("masked") is True:
            masked.append(seq)
        if noted is not None and noted.seq == seq and noted.hash != digest:
            return told(Fault("altered", seq, f"row {seq} is not the one that was noted: the chain was written anew"))
        last, count = Head(seq, digest), count + 1
    end = _end(last)
    for other, name in ((head, "the head"), (noted, "the noted head")):
        if other is not None and other.seq > end.seq:
            gone = f"row {end.seq + 1} and what follows it are gone: {name} is row {other.seq}"
            return told(Fault("truncated", end.seq + 1, gone))
    if head is not None and head != end:
        return told(Fault("headless", end.seq, f"the head does not fit the last row, {end.seq}"))
    return told(None)


def _end(last: Head | None) -> Head:
    """Where the chain stands before any row was taken."""
    return last or BEGINNING


def _misplaced(seq: int, last: Head, head: Head | None) -> Fault | None:
    if seq <= last.seq:
        return Fault("inserted", seq, f"row {seq} stands behind row {last.seq}: it was put in or moved")
    if head is not None and seq > head.seq:
        return Fault("inserted", seq, f"row {seq} stands behind the head, which is row {head.seq}")
    if seq > last.seq + 1:
        upto = f" to {seq - 1}" if seq > last.seq + 2 else ""
        return Fault("missing", last.seq + 1, f"row {last.seq + 1}{upto} is missing")
    return None


def _fits(row: Json, previous: str) -> bool:
    try:
        return bool(chained_hash(previous, row) == row["hash"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return False


def verify_database(path: Path, *, noted: Head | None = None, last_rows: int | None = None) -> Report:
    """Check the audit in a database file, which a server may be writing to: all of it, or its end.

    Raises: sqlite3.Error when there is no chained audit in that file.
    """
    with closing(open_readonly(path)) as connection:
        # One transaction: rows and head are of the same moment.
        connection.execute("BEGIN")
        found = connection.execute("SELECT seq, hash FROM audit_head").fetchone()
        if found is None:
            return Report(0, BEGINNING, Fault("headless", 0, "the head of the audit is gone"))
        head = Head(*found)
        after = BEGINNING
        if last_rows is not None and head.seq > last_rows:
            start = head.seq - last_rows
            before = connection.execute("SELECT seq, hash FROM audit WHERE seq = ?", (start,)).fetchone()
            if before is None:
                return Report(0, head, Fault("missing", start, f"row {start} is missing"))
            after = Head(*before)
        report = verify(stored_rows(connection, after=after.seq or None), after=after, head=head, noted=noted)
        if report.fault is not None:
            return report
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if missing := [name for name in TRIGGERS if name not in names]:
        fault = Fault(
            "open", report.head.seq, f"the rows hold together, but the lock {missing[0]} of the table is gone"
        )
        return Report(report.count, report.head, fault)
    return report


def open_readonly(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, beside a server that writes."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10, isolation_level=None)


def stored_rows(
    connection: sqlite3.Connection, *, after: int | None = None, since: str | None = None, action_id: str | None = None
) -> Iterator[Json]:
    """The rows as they stand in the file, oldest first, one at a time; `read_data` says what became of their data."""
    names = (*CHAINED, "hash")
    wanted = {"seq > ?": after, "at >= ?": since, "action_id = ?": action_id}
    chosen = {condition: value for condition, value in wanted.items() if value is not None}
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    query = f"SELECT {', '.join(names)} FROM audit{where} ORDER BY seq"
    for found in connection.execute(query, list(chosen.values())):
        row = dict(zip(names, found, strict=True))
        row["data"] = read_data(row["data"])
        yield row


def read_data(text: Any) -> Any:
    """The data of a row; None, which no row has, for text that is not one JSON object or could be read in two ways."""
    try:
        value = json.loads(text, object_pairs_hook=_each_once)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(text, str) and isinstance(value, dict) else None


def _each_once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found
