"""Bringing butler.db to the newest schema with alembic, and doing nothing fast when it is there already."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

HEAD = "0007"
"""The newest revision under migrations/versions; a test holds it against the files."""

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(path: Path) -> None:
    """Create or upgrade the database at `path`; safe to call at every start."""
    if current_revision(path) == HEAD:
        return
    # Only a first start or an upgrade pays for alembic's import.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["path"] = path
    command.upgrade(config, "head")


def current_revision(path: Path) -> str | None:
    """The revision that the file is at; None for a new or empty file."""
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError:
            return None
    return str(row[0]) if row else None
