"""`butler user`: people and their roles; they may come and go beside a running server."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection

from butler.people import Actor, Role
from butler.storage.users import add_user, get_account, list_accounts, set_disabled, set_role
from config.settings import load_settings
from service.cli.common import open_database
from service.cli.completing import user_names
from service.cli.plain import json_document

T = TypeVar("T")

user_app = typer.Typer(help="Make and list users, change their roles, shut them out.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.", autocompletion=user_names)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def operator() -> Actor:
    """Who types: the user of the operating system, for the audit."""
    try:
        return Actor(getpass.getuser()[:64], "shell")
    except (OSError, KeyError):
        return Actor("unknown", "shell")


def changed(transaction: Callable[[Connection], T], *, make: bool = False) -> T:
    """Carry out one change in the database; `make`: in a new one where there is none."""
    with open_database(load_settings(), make=make) as database:
        return database.write_now(transaction)


def show(rows: list[dict[str, Any]], as_json: bool, *columns: str) -> None:
    """Print rows as JSON or as a table of these columns."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(row[column]) if row[column] is not None else "" for column in columns))
    Console(highlight=False, markup=False, soft_wrap=True).print(table)


@user_app.command("add")
def user_add(
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes and underscores.")],
    role: Annotated[Role, typer.Option(help="What the user may do.")] = "member",
    as_json: AsJson = False,
) -> None:
    """Make a user and print its token, alone on the last line."""
    person, token = changed(lambda connection: add_user(connection, name, role, operator()), make=True)
    if as_json:
        print(json_document({"name": person.name, "role": person.role, "token": token}))
        return
    print(f"{person.name} is a user with the role {person.role}. The token is shown only now:")
    print(token)


@user_app.command("list")
def user_list(as_json: AsJson = False) -> None:
    """List users and roles."""
    rows = [account.public() for account in changed(list_accounts)]
    if as_json or not any(row["disabled"] for row in rows):
        show(rows, as_json, "name", "role")
    else:
        rows = [{**row, "state": "disabled" if row["disabled"] else ""} for row in rows]
        show(rows, as_json, "name", "role", "state")


@user_app.command("role")
def user_role(name: Name, role: Annotated[Role, typer.Argument(help="The new role.")], as_json: AsJson = False) -> None:
    """Give a user another role, from its next request on."""
    changed(lambda connection: set_role(connection, name, role, operator()))
    _tell(name, f"{name} has the role {role}.", as_json)


@user_app.command("disable")
def user_disable(name: Name, as_json: AsJson = False) -> None:
    """Shut a user out: no token of it works, and no grant of it counts. Its threads stay."""
    changed(lambda connection: set_disabled(connection, name, True, operator()))
    _tell(name, f"{name} is shut out, and what {name} granted does not count any more.", as_json)


@user_app.command("enable")
def user_enable(name: Name, as_json: AsJson = False) -> None:
    """Let a disabled user in again, with the tokens and grants it had."""
    changed(lambda connection: set_disabled(connection, name, False, operator()))
    _tell(name, f"{name} may sign in again.", as_json)


def _tell(name: str, said: str, as_json: bool) -> None:
    """Say what was changed; for programs, how the account stands now."""
    if as_json:
        print(json_document(changed(lambda connection: get_account(connection, name)).public()))
    else:
        print(said)
