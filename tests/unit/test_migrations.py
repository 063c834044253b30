"""The revisions build exactly the tables that the code uses, and a second time nothing happens (F1)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import IntegrityError

from butler.storage.agent_tables import metadata
from butler.storage.database import Database, sqlite_engine
from butler.storage.migrate import HEAD, MIGRATIONS, current_revision, migrate
from tests.support.parts import ADMIN, add_run, proposed, ruling


def script() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)


def schema(path: Path) -> list[Any]:
    """Every table and index as SQLite keeps it."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE tbl_name != 'alembic_version' ORDER BY name"
        ).fetchall()


def test_the_newest_revision_is_the_one_that_the_start_looks_for() -> None:
    assert script().get_heads() == [HEAD]
    files = [path for path in (MIGRATIONS / "versions").glob("*.py") if path.name != "__init__.py"]
    assert max(path.name for path in files).startswith(f"{HEAD}_")
    assert len(files) == len(list(script().walk_revisions()))


def test_a_migrated_database_has_exactly_the_tables_of_the_code(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    migrate(path)
    engine = sqlite_engine(path, writes=True)
    opts = {"compare_type": True, "include_name": lambda name, *_: not str(name).startswith("message_words")}
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=opts), metadata) == []
    engine.dispose()


def test_checks_defaults_and_partial_indexes_are_the_same_too(tmp_path: Path) -> None:
    """Alembic compares none of them well; SQLite's own words do."""
    migrated, created = tmp_path / "migrated.db", tmp_path / "created.db"
    migrate(migrated)
    engine = sqlite_engine(created, writes=True)
    metadata.create_all(engine)
    engine.dispose()

    def words(path: Path) -> dict[str, list[str]]:
        spaced = str.maketrans({'"': None, ",": " , ", "(": " ( ", ")": " ) "})
        return {name: sorted((sql or "").translate(spaced).split()) for _, name, sql in schema(path)}

    assert words(migrated) == words(created)


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    assert current_revision(path) is None
    migrate(path)
    assert current_revision(path) == HEAD
    before = path.read_bytes()
    migrate(path)
    assert path.read_bytes() == before


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    path.touch()
    migrate(path)
    assert current_revision(path) == HEAD


def test_what_is_stored_stays_when_the_newest_revision_is_there(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    migrate(path)
    database = Database(path)
    [action] = proposed(database, ruling("approve"))
    database.close()
    migrate(path)
    database = Database(path)
    row = database.write_now(lambda c: c.exec_driver_sql("SELECT action_id FROM actions").scalar_one())
    assert row == action.action_id
    database.close()


def test_every_revision_can_be_undone(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    migrate(path)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["path"] = path
    command.downgrade(config, "base")
    assert schema(path) == []
    assert current_revision(path) is None
    migrate(path)
    assert current_revision(path) == HEAD


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE actions SET status = 'maybe'", "UPDATE actions SET execution = 'half'",
        "UPDATE threads SET status = 'asleep'", "UPDATE runs SET status = 'stuck'", "UPDATE users SET role = 'king'",
        "UPDATE runs SET requester_id = 'nobody'",
    ],
)  # fmt: skip
def test_the_database_itself_knows_the_words_of_the_contract(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "butler.db"
    migrate(path)
    database = Database(path)
    proposed(database, ruling("approve"))
    database.write_now(lambda c: add_run(c, "another", person=ADMIN))
    with pytest.raises(IntegrityError):
        database.write_now(lambda c: c.exec_driver_sql(statement))
    database.close()


@pytest.mark.parametrize("name", ["50% of ä", "what?", "a#b", "a%20b", "a&b=c", "it's"])
def test_a_directory_with_an_odd_name_holds_its_database(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    migrate(home / "butler.db")
    database = Database(home / "butler.db")
    proposed(database, ruling("approve"))
    database.close()
    assert current_revision(home / "butler.db") == HEAD
    assert [path.name for path in tmp_path.iterdir()] == [name]
