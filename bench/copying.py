"""Multiplies one parked thread in the databases of a stopped Butler, which is faster than parking 50,000.

Every row of the thread but those of the audit, which are chained, is copied with fresh ids. Ids have a
fixed length, so they can be replaced inside JSON and msgpack too without breaking them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from bench.process import HarnessError
from butler.clock import stamp

_TABLES = {
    "butler.db": ("threads", "runs", "messages", "actions"),
    "checkpoints.db": ("checkpoints", "writes"),
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_OWN_IDS = ("thread_id", "run_id", "action_id", "message_id")
_TIMES = ("created_at", "updated_at", "requested_at")
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"

Value = str | bytes | int | float | None


def multiply(data_dir: Path, thread_id: str, copies: int, *, first: int = 0) -> None:
    """Add `copies` parked threads that differ from `thread_id` only in their ids and in their times.

    Each is a millisecond older than the one before: no two threads of a real house change at the very same moment.

    Args:
        first: how many copies there are already, of whatever thread; typing codes are counted on from there.
    """
    with closing(sqlite3.connect(data_dir / "butler.db")) as own:
        old_ids = _ids_of(own, thread_id)
    if len(old_ids) < 3:
        raise HarnessError(f"thread {thread_id!r} has too few rows to be a parked one: {old_ids!r}")
    fresh = [{old: str(uuid4()) for old in old_ids} for _ in range(copies)]
    for file, tables in _TABLES.items():
        with closing(sqlite3.connect(data_dir / file)) as connection:
            connection.execute("PRAGMA foreign_keys=OFF")
            for table in tables:
                _copy_rows(connection, table, thread_id, fresh, first)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _ids_of(connection: sqlite3.Connection, thread_id: str) -> list[str]:
    found = {thread_id}
    for table in _TABLES["butler.db"]:
        columns, rows = _rows(connection, table, thread_id)
        for row in rows:
            found |= {
                value
                for column, value in zip(columns, row, strict=True)
                if column in _OWN_IDS and isinstance(value, str) and _UUID.match(value)
            }
    return sorted(found)


def _rows(connection: sqlite3.Connection, table: str, thread_id: str) -> tuple[list[str], list[tuple[Value, ...]]]:
    cursor = connection.execute(f"SELECT * FROM {table} WHERE thread_id = ?", (thread_id,))
    return [item[0] for item in cursor.description], cursor.fetchall()


def _copy_rows(
    connection: sqlite3.Connection, table: str, thread_id: str, fresh: list[dict[str, str]], first: int
) -> None:
    columns, rows = _rows(connection, table, thread_id)
    marks = ", ".join("?" for _ in columns)

    def copies() -> Iterable[list[Value]]:
        for number, ids in enumerate(fresh, first):
            for row in rows:
                yield [_fresh(column, value, ids, number) for column, value in zip(columns, row, strict=True)]

    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", copies())


def _fresh(column: str, value: Value, ids: dict[str, str], number: int) -> Value:
    if column == "seq":
        return None
    if column == "code" and value is not None:
        return _code(number)
    if column in _TIMES and isinstance(value, str):
        return stamp(datetime.fromisoformat(value) - timedelta(milliseconds=number + 1))
    if isinstance(value, str):
        for old, new in ids.items():
            value = value.replace(old, new)
    elif isinstance(value, bytes):
        for old, new in ids.items():
            value = value.replace(old.encode(), new.encode())
    return value


def _code(number: int) -> str:
    """An 8-letter code; the server's own are shorter, so none collides."""
    letters = ""
    for _ in range(8):
        number, rest = divmod(number, len(_LETTERS))
        letters += _LETTERS[rest]
    return letters
