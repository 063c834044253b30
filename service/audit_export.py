"""Rows of the audit as NDJSON or CSV, and back again, so that an export can be verified without the database (A9)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from butler.clock import stamp
from butler.redact import Redactor
from butler.storage.audit import CHAINED, data_sha256
from butler.storage.audit_check import read_data
from butler.types import Json
from service.events import to_json

Format = Literal["csv", "ndjson"]
COLUMNS = (*CHAINED, "hash", "masked", "data_sha256")
NULLABLE = frozenset({"thread_id", "run_id", "action_id"})
FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""A spreadsheet takes a cell that begins so for a formula, or hides the apostrophe."""
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Years before 1000 are written with fewer digits and would not sort as text; after the last day comes none."""
MOST_CELL_CHARACTERS = 1 << 30


def from_time(moment: datetime | None) -> str | None:
    """A time, in UTC without a zone, as rows are compared with it; the ends of the calendar stay within it."""
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return stamp(min(max(moment, EARLIEST), LATEST))


def shown_row(row: Json, redactor: Redactor) -> Json:
    """A row as it leaves the house; marked as ``masked`` where a secret became known only after it was written."""
    data = redactor.json(row["data"])
    if data == row["data"]:
        return row
    return {**row, "data": data, "masked": True, "data_sha256": data_sha256(row["data"])}


def encoded(rows: Iterable[Json], kind: Format) -> Iterator[bytes]:
    """The rows, line by line."""
    return _csv_lines(rows) if kind == "csv" else (to_json(row) + b"\n" for row in rows)


def _csv_lines(rows: Iterable[Json]) -> Iterator[bytes]:
    line = io.StringIO()
    writer = csv.writer(line)

    def taken() -> bytes:
        text = line.getvalue()
        line.seek(0)
        line.truncate()
        return text.encode("utf-8")

    writer.writerow(COLUMNS)
    yield taken()
    for row in rows:
        cells = {**row, "data": to_json(row["data"]).decode(), "masked": "true" if row.get("masked") else "",
                 "data_sha256": row.get("data_sha256", "")}  # fmt: skip
        writer.writerow([_defused(cells[name]) for name in COLUMNS])
        yield taken()


def _defused(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def read_export(path: Path) -> Iterator[Json]:
    """The rows of an exported file, in their order.

    A line that can't be one of the audit's gives a row without a number, which no check lets pass. Raises OSError,
    and ValueError for a file that is not UTF-8.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        begins = file.read(1)
        file.seek(0)
        yield from _csv_rows(file) if begins == "s" else map(_ndjson_row, file)


def _ndjson_row(line: str) -> Json:
    found = read_data(line)
    row = found if isinstance(found, dict) else {}
    return {name: row.get(name) for name in COLUMNS}


def _csv_rows(file: Iterable[str]) -> Iterator[Json]:
    before = csv.field_size_limit(MOST_CELL_CHARACTERS)
    try:
        for cells in csv.DictReader(file):
            row: Json = {name: _plain(name, cells.get(name)) for name in COLUMNS}
            row["seq"] = int(row["seq"]) if str(row["seq"]).isdecimal() else None
            row["data"] = read_data(row["data"])
            row["masked"] = row["masked"] == "true"
            yield row
    finally:
        csv.field_size_limit(before)


def _plain(name: str, cell: str | None) -> str | None:
    if not cell:
        return None if name in NULLABLE else cell
    return cell.removeprefix("'")
