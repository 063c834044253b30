"""The command line: `butler serve`, `user`, `policy` and `doctor` (E1)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from butler.errors import ButlerError
from butler.people import Role
from butler.storage.database import Database
from butler.storage.migrate import migrate
from butler.storage.users import add_user, list_users
from config.environment import read_environment
from config.problems import ConfigError, did_you_mean
from config.settings import Settings, load_settings, unknown_variables
from config.tools_file import load_tools_file
from service import doctor as doctor_checks
from service.doctor import Finding, State
from service.doctor_model import model as check_model

if TYPE_CHECKING:
    from service.wiring import Configuration

DONE, USAGE, REFUSED, FAILED = 0, 2, 4, 5
REFUSALS = frozenset({"unauthorized", "forbidden", "not_an_approver"})
MARKS: dict[State, str] = {"good": "[green]ok[/]", "note": "[yellow]--[/]", "bad": "[red]!![/]"}

app = typer.Typer(
    name="butler",
    help="A self-hosted butler: it uses tools, and anything dangerous waits for a person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
user_app = typer.Typer(help="Make and list users.", no_args_is_help=True)
policy_app = typer.Typer(help="Try the policy without running anything.", no_args_is_help=True)
app.add_typer(user_app, name="user")
app.add_typer(policy_app, name="policy")


@app.command()
def serve() -> None:
    """Start the server, as `python server.py` does."""
    program = Path(__file__).resolve().parent.parent / "server.py"
    sys.stdout.flush()
    # Replacing this process keeps signals, exit status and working directory as they are.
    os.execv(sys.executable, [sys.executable, str(program)])


@user_app.command("add")
def user_add(
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes and underscores.")],
    role: Annotated[Role, typer.Option(help="What the user may do.")] = "member",
) -> None:
    """Make a user and print its token, alone on the last line."""
    with _database(load_settings()) as database:
        person, token = database.write_now(lambda connection: add_user(connection, name, role))
    print(f"{person.name} is a user with the role {person.role}. The token is shown only now:")
    print(token)


@user_app.command("list")
def user_list() -> None:
    """List users and roles."""
    with _database(load_settings()) as database:
        people = database.write_now(list_users)
    table = Table("name", "role", box=None, pad_edge=False)
    for person in people:
        table.add_row(person.name, person.role)
    Console(highlight=False).print(table)


@policy_app.command("test")
def policy_test(
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="The call's arguments as a JSON object.")] = "{}",
) -> None:
    """Print the verdict on a call, the winning rule and every rule that matched; grants are not asked."""
    args = _object(arguments)
    configuration = _configuration()
    spec = configuration.tools.get(tool)
    if spec is None:
        hint = did_you_mean(tool, configuration.tools.names())
        print(f"note: no tool {tool!r} is declared{hint}", file=sys.stderr)
    else:
        for fault in configuration.tools.validate(tool, args):
            print(f"note: such a call would not get this far: {fault}", file=sys.stderr)
    found = configuration.policy.explain(tool, args, own_verdict=spec.verdict if spec else None)
    ruling = found.ruling
    print(f"verdict: {ruling.verdict}")
    print(f"rule: {ruling.rule}" + (f" ({found.winner.source})" if found.winner else ""))
    print(f"reason: {ruling.reason}")
    print(f"risk: {ruling.risk}")
    if ruling.verdict == "approve":
        named = ruling.deciders or ("admin",)
        print(f"deciders: {', '.join(named)}" + ("" if "admin" in named else "; admins can always decide"))
        print(f"expires: {'never' if ruling.expires_in is None else f'after {ruling.expires_in:g} s'}")
    for rule in found.matched:
        print(f"matched: {rule.name} ({rule.source}) {rule.verdict}")
    if not found.matched:
        print("matched: no rule")


@policy_app.command("check")
def policy_check() -> None:
    """Read the policy and name rules that can never win."""
    configuration = _configuration()
    useless = configuration.policy.useless_rules(configuration.tools.names())
    for fault in useless:
        print(fault)
    if useless:
        raise typer.Exit(FAILED)
    print(f"{_counted(configuration)}; no rule is beaten by another one.")


@app.command()
def doctor() -> None:
    """Check configuration, programs, data directory, database, deciders and model, and say what to do."""
    console = Console(highlight=False, soft_wrap=True)
    states = set()
    for finding in _examine(_configuration(), read_environment().values):
        states.add(finding.state)
        console.print(f"{MARKS[finding.state]} {escape(f'{finding.name}: {finding.detail}')}")
    if "bad" in states:
        raise typer.Exit(FAILED)


def _examine(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[Finding]:
    settings = configuration.settings
    for unknown in unknown_variables():
        yield Finding("environment", "note", str(unknown))
    yield from doctor_checks.files(settings, _counted(configuration))
    yield from doctor_checks.programs(load_tools_file(settings.config_dir / "tools.yml", environ), environ)
    yield doctor_checks.data_directory(settings.data_dir)
    yield doctor_checks.database(settings.database_path)
    yield from doctor_checks.deciders(configuration.policy.definition.rules, settings.database_path)
    yield check_model(settings)


def _configuration() -> Configuration:
    # Imported here: it brings the model libraries along, which take a second that `user add` need not wait.
    from service.wiring import read_configuration

    return read_configuration(load_settings(), read_environment().values)


def _counted(configuration: Configuration) -> str:
    rules = len(configuration.policy.definition.rules)
    return f"{len(configuration.tools.names())} tool(s), {rules} policy rule(s)"


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the arguments are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"the arguments must be a JSON object, not {text!r}")
    return value


@contextmanager
def _database(settings: Settings) -> Iterator[Database]:
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite would make the file as the umask says.
    os.close(os.open(settings.database_path, os.O_RDWR | os.O_CREAT, 0o600))
    migrate(settings.database_path)
    database = Database(settings.database_path)
    try:
        yield database
    finally:
        database.close()


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status: 0 done, 2 usage or configuration, 4 refused, 5 failed."""
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
        return REFUSED if error.code in REFUSALS else USAGE if error.status == 422 else FAILED
    except (OSError, SQLAlchemyError) as error:
        print(f"butler: {error}", file=sys.stderr)
        return FAILED
    return DONE


def main() -> None:
    """Entry point of the `butler` command."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
