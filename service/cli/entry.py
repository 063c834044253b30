"""The `butler` command: its families of commands, `serve`, and the exit statuses (E1)."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from butler.errors import ButlerError
from config.problems import ConfigError
from service.cli.exits import DONE, FAILED, USAGE, exit_status, nobody_reads
from service.cli.lazy import LazyGroup
from service.cli.plain import harmless_lines

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
    as_json = wants_json(arguments)
    try:
        # With --json our own code tells of wrong usage too, so that programs can read it.
        ended = app(args=list(arguments), prog_name="butler", standalone_mode=not as_json)
        return ended if as_json and isinstance(ended, int) else DONE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except TyperException as error:
        print(f"butler: {error.format_message()}", file=sys.stderr)
        return _failed(as_json, "invalid_request", error.format_message(), error.exit_code)
    except typer.Abort:
        print("Aborted.", file=sys.stderr)
        return _failed(as_json, "invalid_request", "It was broken off.", 1)
    except ConfigError as error:
        for problem in error.problems:
            print(harmless_lines(str(problem)), file=sys.stderr)
        return _failed(as_json, "invalid_config", "\n".join(map(str, error.problems)), USAGE)
    except ButlerError as error:
        print(harmless_lines(f"butler: {error.detail}"), file=sys.stderr)
        extras = {name: value for name, value in error.extras.items() if name != "problem"}
        return _failed(
            as_json, error.code, error.detail, exit_status(error), **extras, **error.extras.get("problem", {})
        )
    except BrokenPipeError:
        return nobody_reads()
    except _failures() as error:
        print(f"butler: {error}", file=sys.stderr)
        return _failed(as_json, "internal", str(error), FAILED)


def _failed(as_json: bool, code: str, detail: str, status: int, **more: Any) -> int:
    """Tell programs what went wrong, on standard output, in the form that every face has; gives the exit status."""
    if as_json:
        print(json.dumps({"code": code, "detail": detail, **more}, indent=2, default=str), flush=True)
    return status


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the options ask for JSON; what comes after ``--`` is no option."""
    return "--json" in list(arguments)[: list(arguments).index("--") if "--" in arguments else None]


def _failures() -> tuple[type[Exception], ...]:
    """What is told without a trace; SQLAlchemy is asked for its errors only here, since most commands don't load it."""
    from sqlalchemy.exc import SQLAlchemyError

    return (OSError, sqlite3.Error, SQLAlchemyError)


def main() -> None:
    """Entry point of the `butler` command."""
    sys.exit(run(sys.argv[1:]))
