"""The chain of the audit: whatever somebody does to the rows behind Butler's back is found."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from butler.redact import Redactor
from butler.storage import audit
from butler.storage.audit import Filter, chained_hash, read_rows, record
from butler.storage.audit_check import BEGINNING, TRIGGERS, Head, stored_rows, verify, verify_database
from butler.storage.database import Database
from butler.storage.migrate import MIGRATIONS, migrate
from butler.storage.tables import AUDIT_TRIGGERS
from butler.types import Json
from tests.support.parts import new_database, quick_directory

ROWS = 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "butler.db")


def filled(path: Path, rows: int = ROWS) -> Path:
    database = new_database(path)
    for number in range(1, rows + 1):
        database.write_now(lambda c, n=number: write(c, n))  # type: ignore[misc]
    database.close()
    return path


def write(connection: Connection, number: int) -> None:
    record(connection, "started", actor="butler", via="run", action_id=f"action-{number}", attempt=number)


def tamper(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Do what somebody with the file does: the locks first."""
    with closing(sqlite3.connect(path)) as connection:
        for name in TRIGGERS:
            connection.execute(f"DROP TRIGGER {name}")
        left = connection.execute("SELECT sql FROM sqlite_master WHERE type='trigger' AND tbl_name LIKE 'audit%'")
        assert left.fetchall() == []
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        lock(connection)
        connection.commit()


def lock(connection: sqlite3.Connection) -> None:
    """Put the locks back, so that only the chain can tell."""
    for statement in AUDIT_TRIGGERS:
        connection.execute(statement)


def found(path: Path, **how: Any) -> tuple[str, int] | None:
    fault = verify_database(path, **how).fault
    return (fault.kind, fault.seq) if fault else None


def rows_of(path: Path) -> list[Json]:
    with closing(sqlite3.connect(path)) as connection:
        return list(stored_rows(connection))


def test_a_chain_that_nobody_touched_is_whole_and_numbered_without_gaps(path: Path) -> None:
    report = verify_database(path)
    assert (report.fault, report.count, report.head.seq) == (None, ROWS, ROWS)
    rows = rows_of(path)
    assert [row["seq"] for row in rows] == list(range(1, ROWS + 1))
    assert report.head.hash == rows[-1]["hash"]


def test_the_first_row_is_chained_to_nothing_as_the_migration_does_it(path: Path) -> None:
    first, second = rows_of(path)[:2]
    assert first["hash"] == chained_hash("", first)
    assert second["hash"] == chained_hash(first["hash"], second)


MOVE = "UPDATE audit SET seq = {} WHERE seq = {}"
ATTACKS: dict[str, tuple[tuple[str, ...], tuple[str, int]]] = {
    "alter a word": (("UPDATE audit SET actor = 'mallory' WHERE seq = 3",), ("altered", 3)),
    "alter the time": (("UPDATE audit SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 3",), ("altered", 3)),
    "alter the data": (("""UPDATE audit SET data = '{"attempt":9}' WHERE seq = 3""",), ("altered", 3)),
    "break the data": (("UPDATE audit SET data = 'nothing' WHERE seq = 3",), ("altered", 3)),
    "alter the first row": (("UPDATE audit SET via = 'http' WHERE seq = 1",), ("altered", 1)),
    "alter the last row": (("UPDATE audit SET via = 'http' WHERE seq = 6",), ("altered", 6)),
    "say a name twice": (("""UPDATE audit SET data = '{"attempt":9,"attempt":3}' WHERE seq = 3""",), ("altered", 3)),
    "alter the hash": (("UPDATE audit SET hash = 'f' WHERE seq = 3",), ("altered", 3)),
    "delete the first": (("DELETE FROM audit WHERE seq = 1",), ("missing", 1)),
    "delete one": (("DELETE FROM audit WHERE seq = 4",), ("missing", 4)),
    "delete the last": (("DELETE FROM audit WHERE seq = 6",), ("truncated", 6)),
    "cut the tail off": (("DELETE FROM audit WHERE seq > 2",), ("truncated", 3)),
    "delete all": (("DELETE FROM audit",), ("truncated", 1)),
    "delete one and close the gap": (
        ("DELETE FROM audit WHERE seq = 4", "UPDATE audit SET seq = seq - 1 WHERE seq > 4"), ("altered", 4),
    ),
    "swap two": (tuple(MOVE.format(*pair) for pair in ((99, 2), (2, 5), (5, 99))), ("altered", 2)),
    "move the last to the front": (
        ("UPDATE audit SET seq = 0 WHERE seq = 6",), ("inserted", 0),
    ),
    "put one in behind the head": (
        ("INSERT INTO audit (seq, at, event, actor, via, data, hash) VALUES (7, '', 'done', 'x', 'y', '{}', '')",),
        ("inserted", 7),
    ),
    "put one in between": (
        (
            "UPDATE audit SET seq = 100 - seq WHERE seq > 2", "UPDATE audit SET seq = 101 - seq WHERE seq > 50",
            "INSERT INTO audit (seq, at, event, actor, via, data, hash) VALUES (3, '', 'done', 'x', 'y', '{}', '')",
        ),
        ("altered", 3),
    ),
    "set the head back": (("UPDATE audit_head SET seq = 5",), ("inserted", 6)),
    "alter the head": (("UPDATE audit_head SET hash = 'f'",), ("headless", 6)),
    "remove the head": (("DELETE FROM audit_head",), ("headless", 0)),
    "cut the tail off and set the head's number": (
        ("DELETE FROM audit WHERE seq > 2", "UPDATE audit_head SET seq = 2"), ("headless", 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "fault"), ATTACKS.values(), ids=ATTACKS)
def test_tampering_is_found_at_its_first_row(path: Path, statements: tuple[str, ...], fault: tuple[str, int]) -> None:
    tamper(path, *statements)
    assert found(path) == fault


def test_a_table_whose_lock_was_taken_off_is_told(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP TRIGGER {TRIGGERS[0]}")
    assert found(path) == ("open", ROWS)


def test_a_tail_that_was_cut_off_with_the_head_is_found_by_a_noted_head(path: Path) -> None:
    noted = verify_database(path).head
    second = rows_of(path)[1]["hash"]
    tamper(path, "DELETE FROM audit WHERE seq > 2", ("UPDATE audit_head SET seq = 2, hash = ?", (second,)))
    assert found(path) is None
    assert found(path, noted=noted) == ("truncated", 3)


def test_a_chain_that_was_written_anew_is_found_by_a_noted_head(path: Path) -> None:
    noted = Head.parse(str(verify_database(path).head))
    rows, previous = rows_of(path), ""
    statements: list[str | tuple[str, tuple[Any, ...]]] = []
    rows[2]["actor"] = "mallory"
    for row in rows:
        previous = chained_hash(previous, row)
        statements.append(("UPDATE audit SET actor = ?, hash = ? WHERE seq = ?", (row["actor"], previous, row["seq"])))
    tamper(path, *statements, ("UPDATE audit_head SET hash = ?", (previous,)))
    assert found(path) is None
    assert found(path, noted=noted) == ("altered", ROWS)


def test_a_noted_head_stays_in_the_chain_as_it_grows(path: Path) -> None:
    noted = verify_database(path).head
    database = new_database(path)
    database.write_now(lambda c: write(c, 7))
    database.close()
    assert found(path, noted=noted) is None


def test_the_end_alone_can_be_checked(path: Path) -> None:
    assert verify_database(path, last_rows=2).count == 2
    assert verify_database(path, last_rows=50).count == ROWS
    tamper(path, "UPDATE audit SET actor = 'mallory' WHERE seq = 2")
    assert found(path, last_rows=2) is None
    assert found(path, last_rows=5) == ("altered", 2)
    tamper(path, "DELETE FROM audit WHERE seq = 4")
    assert found(path, last_rows=2) == ("missing", 4)


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'x' WHERE seq = 1", "DELETE FROM audit WHERE seq = 1"])
def test_the_database_itself_refuses_to_touch_a_row(path: Path, statement: str) -> None:
    database = new_database(path)
    with pytest.raises(IntegrityError, match="audit rows are never"):
        database.write_now(lambda c: c.exec_driver_sql(statement))
    database.close()
    assert found(path) is None


async def test_a_transaction_that_fails_leaves_the_chain_of_its_neighbours_whole(path: Path) -> None:
    database = new_database(path)

    def failing(connection: Connection) -> None:
        write(connection, 100)
        raise ValueError("nothing of this stays")

    futures = [database.write_soon(lambda c, n=n: write(c, n) if n % 3 else failing(c)) for n in range(60)]  # type: ignore[misc]
    failures = [future.exception() for future in futures]
    database.close()
    assert sum(failure is not None for failure in failures) == 20
    report = verify_database(path)
    assert (report.fault, report.count) == (None, ROWS + 40)


def test_processes_that_write_at_the_same_time_make_one_chain(path: Path) -> None:
    databases = [Database(path) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda db: [db.write_now(lambda c: write(c, 1)) for _ in range(20)], databases))
    for database in databases:
        database.close()
    report = verify_database(path)
    assert (report.fault, report.count) == (None, ROWS + 60)


def test_a_secret_is_masked_before_it_is_chained(tmp_path: Path) -> None:
    new_database(tmp_path / "butler.db").close()
    database = Database(tmp_path / "butler.db", redactor=Redactor(['quo"ted-secret']))
    database.write_now(
        lambda c: record(c, "rejected", actor="ada", via="http", decision={"reason": 'it is quo"ted-secret, no?'})
    )
    [row] = database.write_now(lambda c: read_rows(c, Filter(), 10))
    database.close()
    assert row["data"] == {"decision": {"reason": "it is ***, no?"}}
    assert found(tmp_path / "butler.db") is None


TEXTS = st.text(st.characters(codec=None), max_size=8)  # lone surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXTS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with quick_directory() as directory:
        yield Path(directory)


@settings(deadline=None, max_examples=60)
@given(data=st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), min_size=1, max_size=4))
def test_whatever_is_recorded_reads_back_with_its_hash(data: list[Json], scratch: Path) -> None:
    database = new_database(scratch / "readback.db")

    def write_all(connection: Connection) -> None:
        for one in data:
            record(connection, "done", actor="butler", via="run", said=one)

    database.write_now(write_all)
    rows = database.write_now(lambda c: read_rows(c, Filter(), 10**6))
    database.close()
    assert [row["data"] for row in rows[-len(data) :]] == [{"said": one} for one in data]
    assert verify(rows).fault is None
    assert verify(json.loads(json.dumps(rows))).fault is None
    assert found(scratch / "readback.db") is None


Change = Callable[[list[Json]], None]


def _altering(name: str, at: int, value: Any) -> Change:
    return lambda rows: rows[at].__setitem__(name, value)


CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        _altering, st.sampled_from([*audit.CHAINED, "hash"]), st.integers(0, ROWS - 2), st.integers(-3, 9) | TEXTS
    ),
    st.integers(0, ROWS - 2).map(lambda at: lambda rows: rows.pop(at)),
    st.tuples(st.integers(0, ROWS - 2), st.integers(0, ROWS - 2)).map(
        lambda pair: lambda rows: rows.insert(pair[0], dict(rows[pair[1]]))
    ),
    st.permutations(range(ROWS)).map(lambda order: lambda rows: rows.__setitem__(slice(None, ROWS), _in(order, rows))),
)


def _in(order: list[int], rows: list[Json]) -> list[Json]:
    return [rows[index] for index in order if index < len(rows)]


@settings(deadline=None, max_examples=150)
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_no_mixture_of_changes_goes_unseen(changes: list[Change], chain: list[Json]) -> None:
    head = Head(chain[-1]["seq"], chain[-1]["hash"])
    rows = [dict(row) for row in chain]
    for change in changes:
        if len(rows) > ROWS - 2:
            change(rows)
    report = verify(rows, after=BEGINNING, head=head)
    assert (report.fault is None) == (rows == chain)


@pytest.fixture(scope="module")
def chain(scratch: Path) -> list[Json]:
    return rows_of(filled(scratch / "chain.db"))


def test_rows_from_before_the_chain_are_chained_by_the_migration(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["path"] = path
    command.upgrade(config, "0001")
    said = ['{"b": 1, "a": "\\u00fc \\ud800"}', '{"n": 100000000000000000000000000, "f": 0.1}', "{}"]
    with closing(sqlite3.connect(path)) as connection:
        for data in said:
            connection.execute(
                "INSERT INTO audit (at, event, actor, via, data) VALUES ('2026-01-01', 'done', 'butler', 'run', ?)",
                (data,),
            )
        connection.commit()
    migrate(path)
    database = Database(path)
    database.write_now(lambda c: write(c, 4))
    database.close()
    report = verify_database(path)
    assert (report.fault, report.count) == (None, 4)
    tamper(path, "UPDATE audit SET data = '{\"a\": 2}' WHERE seq = 1")
    assert found(path) == ("altered", 1)


@pytest.mark.parametrize("seq", [1, 2])
def test_sqlite_refuses_to_put_another_row_in_the_place_of_one(tmp_path: Path, seq: int) -> None:
    path = tmp_path / "butler.db"
    database = new_database(path)
    for _ in range(2):
        database.write_now(lambda c: record(c, "user_added", actor="ada", via="test"))
    database.close()
    columns = "at, event, 'mallory', via, thread_id, run_id, action_id, data, hash"
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="never replaced"):
        connection.execute(f"INSERT OR REPLACE INTO audit SELECT seq, {columns} FROM audit WHERE seq = ?", (seq,))
