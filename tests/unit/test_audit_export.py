"""Exports of the audit: they read back as they were, and verify without the database."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.redact import Redactor
from butler.storage.audit import Filter, read_rows, record
from butler.storage.audit_check import BEGINNING, verify
from butler.types import Json
from service.audit_export import COLUMNS, Format, encoded, read_export, shown_row
from tests.support.parts import new_database

FORMATS: tuple[Format, ...] = ("csv", "ndjson")
NOTHING = Redactor([])
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
STARTS = st.sampled_from(["", "=1+1", "+1", "-1", "@sum", "'", "''=", "\t", "\r", "\n", '"'])
TEXTS = st.builds(lambda start, rest: start + rest, STARTS, PLAIN)
ROWS: st.SearchStrategy[Json] = st.builds(
    dict, seq=st.integers(1, 10**9), at=st.just("2026-01-01T00:00:00.000000Z"), event=TEXTS.filter(bool),
    actor=TEXTS.filter(bool), via=TEXTS.filter(bool), thread_id=st.none() | TEXTS.filter(bool), run_id=st.none(),
    action_id=st.none() | TEXTS.filter(bool),
    data=st.dictionaries(st.text(max_size=4), st.none() | st.text(max_size=9) | st.integers() | st.floats(-9e99, 9e99)),
    hash=st.just("f" * 64),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


MARKS = ("masked", "data_sha256")
"""What only rows have whose data was masked."""


def read_back(rows: list[Json], kind: Format, folder: Path) -> list[Json]:
    path = folder / f"export.{kind}"
    path.write_bytes(b"".join(encoded(rows, kind)))
    return [{name: row[name] for name in COLUMNS if name not in MARKS} for row in read_export(path)]


@pytest.mark.parametrize("kind", FORMATS)
@settings(deadline=None)
@given(rows=st.lists(ROWS, max_size=4))
def test_an_export_reads_back_exactly(kind: Format, rows: list[Json], folder: Path) -> None:
    assert read_back(rows, kind, folder) == rows


@settings(deadline=None)
@given(row=ROWS)
def test_no_cell_is_a_formula_for_a_spreadsheet(row: Json) -> None:
    table = b"".join(encoded([row], "csv")).decode()
    for cell in list(csv.reader(io.StringIO(table, newline="")))[1]:
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.fixture
def chain(tmp_path: Path) -> list[Json]:
    database = new_database(tmp_path / "butler.db")
    for number in range(5):
        said = {"reason": f"because ütf 0.1 {number} =cmd()", "number": 10**25 + number, "float": 0.1 + number}
        database.write_now(lambda c, s=said: record(c, "rejected", actor="ada", via="http", action_id="a", **s))  # type: ignore[misc]
    rows = database.write_now(lambda c: read_rows(c, Filter(), 10))
    database.close()
    return rows


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_verifies_like_the_database(kind: Format, chain: list[Json], folder: Path) -> None:
    report = verify(read_back(chain, kind, folder))
    assert (report.fault, report.count, report.head.hash) == (None, 5, chain[-1]["hash"])


@pytest.mark.parametrize("kind", FORMATS)
def test_what_was_altered_in_an_export_is_found(kind: Format, chain: list[Json], tmp_path: Path) -> None:
    text = b"".join(encoded(chain, kind)).decode().replace("tf 0.1 2", "tf 0.2 2")
    (tmp_path / "export").write_text(text, encoding="utf-8", newline="")
    fault = verify(read_export(tmp_path / "export")).fault
    assert fault is not None and (fault.kind, fault.seq) == ("altered", 3)


def test_a_part_of_the_audit_takes_its_first_row_on_trust(chain: list[Json]) -> None:
    report = verify(chain[2:], after=None)
    assert (report.fault, report.trusted, report.count) == (None, 3, 3)


def test_a_secret_that_became_known_later_is_masked_and_marked(chain: list[Json], folder: Path) -> None:
    rows = [shown_row(row, Redactor(["ütf 0.1 2"])) for row in chain]
    assert [row.get("masked", False) for row in rows] == [False, False, True, False, False]
    for kind in FORMATS:
        path = folder / f"masked.{kind}"
        path.write_bytes(b"".join(encoded(rows, kind)))
        assert b"0.1 2 " not in path.read_bytes()
        report = verify(read_export(path))
        assert (report.fault, report.masked, report.count) == (None, (3,), 5)
    assert [shown_row(row, NOTHING) for row in chain] == chain


@pytest.mark.parametrize(
    "forged",
    [
        {"actor": "mallory", "masked": True},
        {"actor": "mallory", "masked": True, "data_sha256": "0" * 64},
        {"event": "expired", "masked": "true"},
        {"masked": True},
        {"masked": True, "hash": "0" * 64},
    ],
    ids=str,
)
def test_that_a_row_says_it_is_masked_hides_nothing_but_its_data(chain: list[Json], forged: Json) -> None:
    rows = [*chain[:2], {**chain[2], **forged}, *chain[3:]]
    fault = verify(rows).fault
    assert fault is not None and (fault.kind, fault.seq) == ("altered", 3)


@pytest.mark.parametrize("forged", [{"actor": "mallory"}, {"event": "expired"}, {"via": "x"}, {"at": "2031"}], ids=str)
def test_of_a_masked_row_everything_but_its_data_is_checked(chain: list[Json], forged: Json) -> None:
    rows = [shown_row(row, Redactor(["ütf 0.1 2"])) for row in chain]
    fault = verify([*rows[:2], {**rows[2], **forged}, *rows[3:]]).fault
    assert fault is not None and (fault.kind, fault.seq) == ("altered", 3)


@pytest.mark.parametrize(
    "text",
    ["nonsense\n", "{}\n", "[1]\n", '{"seq": "1", "hash": "x"}\n', "seq,at\n1,2\n", "seq,hash\nx,y\n", '{"seq": 1}\n'],
)
def test_what_is_no_export_is_never_whole(text: str, tmp_path: Path) -> None:
    (tmp_path / "export").write_text(text)
    assert verify(read_export(tmp_path / "export"), after=BEGINNING).fault is not None


def test_a_reason_of_any_length_fits_into_a_cell(folder: Path) -> None:
    row: Json = dict.fromkeys(COLUMNS) | {"seq": 1, "data": {"reason": "x" * 500_000}, "hash": "f"}
    row |= {"at": "t", "event": "e", "actor": "a", "via": "v"}
    row = {name: value for name, value in row.items() if name not in MARKS}
    assert read_back([row], "csv", folder) == [row]
    assert csv.field_size_limit() < 500_000


def test_ndjson_has_one_row_in_each_line(chain: list[Json]) -> None:
    lines = b"".join(encoded(chain, "ndjson")).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3, 4, 5]
