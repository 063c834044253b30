"""`butler user`: people, their roles and their tokens."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from butler.people import Role
from butler.storage.users import add_user, list_users
from config.settings import load_settings
from service.cli.common import open_database

user_app = typer.Typer(help="Make and list users.", no_args_is_help=True)


@user_app.command("add")
def user_add(
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes and underscores.")],
    role: Annotated[Role, typer.Option(help="What the user may do.")] = "member",
) -> None:
    """Make a user and print its token, alone on the last line."""
    with open_database(load_settings()) as database:
        person, token = database.write_now(lambda connection: add_user(connection, name, role))
    print(f"{person.name} is a user with the role {person.role}. The token is shown only now:")
    print(token)


@user_app.command("list")
def user_list() -> None:
    """List users and roles."""
    with open_database(load_settings()) as database:
        people = database.write_now(list_users)
    table = Table("name", "role", box=None, pad_edge=False)
    for person in people:
        table.add_row(person.name, person.role)
    Console(highlight=False).print(table)
