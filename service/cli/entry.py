"""The `butler` command: its families of commands, `serve`, and the exit statuses (E1)."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from butler.errors import ButlerError
from config.problems import ConfigError
from service.cli.exits import DONE, FAILED, USAGE, exit_status
from service.cli.lazy import LazyGroup

app = typer.Typer(
    name="butler",
    cls=LazyGroup,
    help="A self-hosted butler: it uses tools, and anything dangerous waits for a person.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def butler() -> None:
    """A self-hosted butler: it uses tools, and anything dangerous waits for a person."""


@app.command()
def serve(
    config_dir: Annotated[
        Path | None, typer.Option(help="The folder of the configuration, as BUTLER_CONFIG_DIR.")
    ] = None,
    env_path: Annotated[Path | None, typer.Option(help="The file of variables in place of .env.")] = None,
) -> None:
    """Start the server, as `python server.py` does."""
    for name, path in (("BUTLER_CONFIG_DIR", config_dir), ("BUTLER_ENV_PATH", env_path)):
        if path is not None:
            os.environ[name] = str(path.expanduser().absolute())
    program = Path(__file__).resolve().parent.parent.parent / "server.py"
    sys.stdout.flush()
    # Replacing this process keeps signals, exit status and working directory as they are.
    os.execv(sys.executable, [sys.executable, str(program)])


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status: 0 done, 2 usage, 3 parked, 4 refused, 5 failed."""
    try:
        app(args=list(arguments), prog_name="butler")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return USAGE
    except ButlerError as error:
        print(f"butler: {error.detail}", file=sys.stderr)
        return exit_status(error)
    except _failures() as error:
        print(f"butler: {error}", file=sys.stderr)
        return FAILED
    return DONE


def _failures() -> tuple[type[Exception], ...]:
    """What is told without a trace; SQLAlchemy is asked for its errors only here, since most commands don't load it."""
    from sqlalchemy.exc import SQLAlchemyError

    return (OSError, sqlite3.Error, SQLAlchemyError)


def main() -> None:
    """Entry point of the `butler` command."""
    sys.exit(run(sys.argv[1:]))
