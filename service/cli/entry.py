"""The `butler` command: its families of commands, `serve`, `doctor`, and the exit statuses (E1)."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from sqlalchemy.exc import SQLAlchemyError

from butler.errors import ButlerError
from config.environment import read_environment
from config.problems import ConfigError
from config.settings import unknown_variables
from config.tools_file import load_tools_file
from service import doctor as doctor_checks
from service.cli.approvals import approvals_app
from service.cli.audit import audit_app
from service.cli.common import DONE, FAILED, USAGE, configuration, counted
from service.cli.deciding import approve, deny, respond
from service.cli.exits import exit_status
from service.cli.grants import grants_app
from service.cli.notify import notify_app
from service.cli.policy import policy_app
from service.cli.threads import threads
from service.cli.tokens import token_app
from service.cli.users import user_app
from service.doctor import Finding, State
from service.doctor_model import model as check_model
from service.doctor_notify import notifications as check_notifications

if TYPE_CHECKING:
    from service.wiring import Configuration

MARKS: dict[State, str] = {"good": "[green]ok[/]", "note": "[yellow]--[/]", "bad": "[red]!![/]"}

app = typer.Typer(
    name="butler",
    help="A self-hosted butler: it uses tools, and anything dangerous waits for a person.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
user_app.add_typer(token_app, name="token")
app.add_typer(user_app, name="user")
app.add_typer(policy_app, name="policy")
app.add_typer(audit_app, name="audit")
app.add_typer(notify_app, name="notify")
app.add_typer(approvals_app, name="approvals")
app.add_typer(grants_app, name="grants")
for command in (approve, deny, respond, threads):
    app.command()(command)


@app.command()
def serve() -> None:
    """Start the server, as `python server.py` does."""
    program = Path(__file__).resolve().parent.parent.parent / "server.py"
    sys.stdout.flush()
    # Replacing this process keeps signals, exit status and working directory as they are.
    os.execv(sys.executable, [sys.executable, str(program)])


@app.command()
def doctor() -> None:
    """Check configuration, programs, data directory, database, deciders and model, and say what to do."""
    console = Console(highlight=False, soft_wrap=True)
    states = set()
    for finding in _examine(configuration(), read_environment().values):
        states.add(finding.state)
        console.print(f"{MARKS[finding.state]} {escape(f'{finding.name}: {finding.detail}')}")
    if "bad" in states:
        raise typer.Exit(FAILED)


def _examine(read: Configuration, environ: Mapping[str, str]) -> Iterator[Finding]:
    settings = read.settings
    for unknown in unknown_variables():
        yield Finding("environment", "note", str(unknown))
    yield from doctor_checks.files(settings, counted(read))
    yield from doctor_checks.programs(load_tools_file(settings.config_dir / "tools.yml", environ), environ)
    yield doctor_checks.data_directory(settings.data_dir)
    yield doctor_checks.database(settings.database_path)
    yield from doctor_checks.audit_chain(settings.database_path)
    yield from doctor_checks.deciders(read.policy.definition.rules, settings.database_path)
    yield from check_notifications(read.channels, settings.database_path)
    yield check_model(settings)


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
    except (OSError, SQLAlchemyError, sqlite3.Error) as error:
        print(f"butler: {error}", file=sys.stderr)
        return FAILED
    return DONE


def main() -> None:
    """Entry point of the `butler` command."""
    sys.exit(run(sys.argv[1:]))
