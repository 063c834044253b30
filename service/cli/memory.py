"""`butler memory`: what is remembered of a person, read and changed in the database itself; a server may run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import memories
from butler.storage.memories import Source
from butler.storage.users import OWNER, find_user
from config.environment import read_environment
from config.problems import ConfigError
from config.settings import load_settings
from service.cli.common import configuration, open_database
from service.cli.exits import PARKED
from service.cli.plain import harmless_lines, json_document, visible
from service.memory import erase_all, memory_item

T = TypeVar("T")
VIA = "cli"
Whose = Annotated[str, typer.Option("--user", help="Whose memories.")]
MemoryId = Annotated[str, typer.Argument(help="The id that `list` shows.")]
Importance = Annotated[int | None, typer.Option(min=1, max=10, help="1 to 10; 5 for a new one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

memory_app = typer.Typer(help="Read and change what is remembered of a person.", no_args_is_help=True)


@memory_app.command("list")
def memory_list(
    query: Annotated[str, typer.Argument(help="Only what has to do with these words.")] = "",
    user: Whose = OWNER,
    all_of_them: Annotated[bool, typer.Option("--all", help="Forgotten ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List memories, the most important first."""
    found = _with(user, lambda c, person: memories.listed(c, person.user_id, query, forgotten=all_of_them))
    if as_json:
        print(json_document({"items": [memory_item(one) for one in found]}))
        return
    if not found:
        print("Nothing is remembered." if not query else "Nothing was found.")
        return
    table = Table("id", "importance", "since", "text", box=None, pad_edge=False)
    for one in found:
        shown = f"(forgotten) {one.text}" if one.forgotten_at else one.text
        table.add_row(one.memory_id, str(one.importance), one.created_at[:10], Text(visible(shown)))
    Console(highlight=False, soft_wrap=True).print(table)


@memory_app.command("add")
def memory_add(
    text: Annotated[str, typer.Argument(help="One fact.")],
    user: Whose = OWNER,
    importance: Importance = None,
    as_json: AsJson = False,
) -> None:
    """Remember something and print its id."""
    kept = _masked(text)
    memory, _ = _with(user, lambda c, p: memories.remember(c, p.user_id, kept, importance, Source(p.name, VIA)))
    print(json_document(memory_item(memory)) if as_json else memory.memory_id)


@memory_app.command("edit")
def memory_edit(
    memory_id: MemoryId,
    text: Annotated[str | None, typer.Argument(help="The new text.")] = None,
    user: Whose = OWNER,
    importance: Importance = None,
    as_json: AsJson = False,
) -> None:
    """Change the text or the importance of a memory."""
    if text is None and importance is None:
        raise typer.BadParameter("give a new text, --importance or both")
    kept = _masked(text) if text is not None else None
    _with(user, lambda c, person: memories.edit(c, person.user_id, memory_id, text=kept, importance=importance))
    _tell_changed(memory_id, as_json)


@memory_app.command("forget")
def memory_forget(memory_id: MemoryId, user: Whose = OWNER, as_json: AsJson = False) -> None:
    """Put a memory aside; `undo` takes it back."""
    _with(user, lambda connection, person: memories.forget(connection, person.user_id, memory_id))
    _tell_changed(memory_id, as_json)


@memory_app.command("undo")
def memory_undo(memory_id: MemoryId, user: Whose = OWNER, as_json: AsJson = False) -> None:
    """Take a forgotten memory back, or a merged one apart."""
    found = list(_with(user, lambda connection, person: memories.undo(connection, person.user_id, memory_id)))
    if as_json:
        print(json_document({"items": [memory_item(one) for one in found]}))
        return
    for one in found:
        print(one.memory_id)


@memory_app.command("export")
def memory_export(
    user: Whose = OWNER,
    lines: Annotated[bool, typer.Option("--ndjson", help="One JSON object a line instead of one document.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document, as without it.")] = False,
) -> None:
    """Print everything, forgotten memories too, as JSON."""
    if as_json and lines:
        raise typer.BadParameter("--json and --ndjson exclude each other")
    items = [memory_item(one) for one in _with(user, lambda c, p: memories.listed(c, p.user_id, forgotten=True))]
    if lines:
        for item in items:
            print(visible(json.dumps(item, ensure_ascii=False)))
        return
    document = {"person": user, "exported_at": stamp(), "memories": items}
    print(harmless_lines(json.dumps(document, ensure_ascii=False, indent=2)))


@memory_app.command("erase")
def memory_erase(
    user: Whose = OWNER,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask before it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove all of a person's memories for good."""
    if not yes and as_json:
        raise typer.BadParameter("with --json nothing is asked; add --yes")
    if not yes:
        _ask(f"Erase everything that is remembered of {user}? This can't be undone")
    count = _with(user, lambda connection, person: erase_all(connection, person, VIA))
    print(json_document({"erased": count}) if as_json else f"{count} memories of {user} are erased.")


def _ask(question: str) -> None:
    """Go on after a yes alone. Raises: typer.Exit with the status of a decision that was not taken."""
    try:
        sure = typer.confirm(question)
    except typer.Abort:  # Ctrl-C, or nobody to answer
        print()
        sure = False
    if not sure:
        print("Nothing was erased.")
        raise typer.Exit(PARKED)


def _tell_changed(memory_id: str, as_json: bool) -> None:
    if as_json:
        print(json_document({"memory_id": memory_id, "ok": True}))


def _with(name: str, work: Callable[[Connection, Principal], T]) -> T:
    """Work on the memories of the user of that name. Raises ButlerError ``not_found``."""

    def transaction(connection: Connection) -> T:
        person = find_user(connection, name)
        if person is None:
            raise ButlerError("not_found", f"There is no user {name!r}. `butler user list` shows all.")
        return work(connection, person)

    with open_database(load_settings()) as database:
        return database.write_now(transaction)


def _masked(text: str) -> str:
    try:
        read = configuration()
    except ConfigError:
        # What notify.yml needs may be set for the server alone; then its secrets are not here either.
        read = configuration(channels=False)
    return read.redactor(read_environment().values).text(text)
