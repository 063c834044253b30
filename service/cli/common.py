"""What several commands need: the configuration, the database, arguments as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from butler.errors import ButlerError
from butler.redact import Redactor
from butler.storage.database import Database
from butler.storage.migrate import migrate
from config.environment import read_environment
from config.settings import Settings, load_settings

if TYPE_CHECKING:
    from service.wiring import Configuration


def configuration(*, channels: bool = True) -> Configuration:
    """The checked configuration of the working directory; `channels`: who is to be notified too. Raises ConfigError."""
    # Imported here: it brings the model libraries along, which take a second that `user add` need not wait.
    from service.wiring import read_configuration

    return read_configuration(load_settings(), read_environment().values, channels=channels)


def counted(configuration: Configuration) -> str:
    """How much the configuration holds, in words."""
    rules = len(configuration.policy.definition.rules)
    return f"{len(configuration.tools.offered_names())} tool(s), {rules} policy rule(s)"


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object from the command line. Raises typer.BadParameter."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the arguments are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"the arguments must be a JSON object, not {text!r}")
    return value


@contextmanager
def open_database(settings: Settings, *, make: bool = False) -> Iterator[Database]:
    """The database file itself, brought up to date if need be; a server may have it open too.

    Args:
        make: make a new one where there is none, and say so.
    Raises:
        ButlerError: ``not_found`` where there is none; a second Butler in the wrong folder would mislead.
    """
    path = settings.database_path
    if not path.exists():
        if not make:
            raise ButlerError(
                "not_found", f"There is no database {path}; go to Butler's folder or set BUTLER_DATA_DIR."
            )
        print(f"note: there was no Butler here yet; {path} is new", file=sys.stderr)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite would make the file as the umask says.
    os.close(os.open(settings.database_path, os.O_RDWR | os.O_CREAT, 0o600))
    migrate(settings.database_path)
    database = Database(settings.database_path, redactor=Redactor.from_environment(settings, read_environment().values))
    try:
        yield database
    finally:
        database.close()
