"""`butler approvals`: what waits for a person, whole and exact, from a running server (E1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import typer

from butler.errors import ButlerError
from butler.ids import CODE_LETTERS
from butler.types import Json
from service.cli.cards import console, print_approval
from service.cli.completing import approval_codes, thread_ids
from service.cli.plain import json_document, visible
from service.cli.remote import Remote, remote

LONGEST_CODE = 8
Status = Literal["pending", "approved", "rejected", "expired", "cancelled"]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

approvals_app = typer.Typer(help="List what waits for a decision, or what was decided.", invoke_without_command=True)


@approvals_app.callback()
def list_approvals(
    context: typer.Context,
    thread: Annotated[str, typer.Option(help="Only this thread's.", metavar="ID", autocompletion=thread_ids)] = "",
    status: Annotated[Status, typer.Option(help="Only those in this state.")] = "pending",
    every: Annotated[bool, typer.Option("--all", help="In any state.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision, oldest first: every call whole, with how to answer it."""
    if context.invoked_subcommand is not None:
        return
    with remote() as server:
        found = server.pages(
            "/approvals", status="" if every else status, thread_id=thread, waits_for=_asked(not as_json)
        )
        if as_json:
            print(json_document({"items": list(found)}))
            return
        _print_all(found, "Nothing waits for you." if status == "pending" and not every else "There are none.")


@approvals_app.command("show")
def show(
    names: Annotated[
        list[str], typer.Argument(help="Codes or ids.", metavar="CODE|ID…", autocompletion=approval_codes)
    ],
    as_json: AsJson = False,
) -> None:
    """Show approvals by code (while they wait) or by id (always)."""
    with remote() as server:
        found = [required(one) for one in find(server, names, waits_for=not as_json)]
    if as_json:
        print(json_document({"items": found}))
        return
    _print_all(found, "")


def _print_all(approvals: Iterable[Json], when_none: str) -> None:
    out, count = console(), 0
    for count, approval in enumerate(approvals, 1):
        if count > 1:
            out.print()
        print_approval(out, approval)
    if not count:
        out.print(when_none)


def find(server: Remote, names: Iterable[str], *, waits_for: bool = False) -> list[Json | ButlerError]:
    """The approvals with these codes or ids, in order; an error in the place of each that isn't there.

    `waits_for`: they say whom they wait for, if that is not the caller.
    """
    wanted = [name.strip() for name in names]
    by_code: dict[str, Json] = {}
    for code in {name.upper() for name in wanted if is_code(name)}:
        for item in server.get("/approvals", status="pending", code=code, waits_for=_asked(waits_for))["items"]:
            by_code[code] = item
    return [
        by_code.get(name.upper()) or _no_such(name) if is_code(name) else _by_id(server, name, waits_for)
        for name in wanted
    ]


def _asked(wanted: bool) -> str:
    return "true" if wanted else ""


def is_code(name: str) -> bool:
    """Whether a name can be a typing code; all others are ids."""
    return 0 < len(name) <= LONGEST_CODE and set(name.upper()) <= set(CODE_LETTERS)


def required(found: Json | ButlerError) -> Json:
    """Raises the error that stands in an approval's place."""
    if isinstance(found, ButlerError):
        raise found
    return found


def _no_such(code: str) -> ButlerError:
    return ButlerError(
        "not_found",
        f"Nothing with the code {code.upper()} waits for you; a decided one is found by its id. "
        "`butler approvals` lists what waits.",
    )


def _by_id(server: Remote, action_id: str, waits_for: bool) -> Json | ButlerError:
    if not action_id or not all(char.isalnum() or char in "-_" for char in action_id):
        return ButlerError("invalid_request", f"{visible(action_id)!r} is neither a code nor an id.")
    try:
        return server.get(f"/approvals/{action_id}", waits_for=_asked(waits_for))
    except ButlerError as error:
        if error.code != "not_found":
            raise
        return error
