"""`butler grants`: what is allowed without asking, its end, and what a grant would have covered (E1)."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from butler.errors import ButlerError
from butler.types import Json
from service.cli.approvals import AsJson, find, required
from service.cli.cards import console, print_fields
from service.cli.completing import approval_codes, grant_ids
from service.cli.exits import exit_status, worst
from service.cli.grantwish import grant_fields, print_preview, wish
from service.cli.plain import json_document, visible
from service.cli.remote import remote

Scope = Literal["thread", "user", "everyone"]
Match = Annotated[list[str] | None, typer.Option("--match", help="A glob on one argument.", metavar="NAME=GLOB")]
AnyArguments = Annotated[bool, typer.Option("--any-arguments", help="Whatever the arguments are.")]
Closed = Annotated[bool, typer.Option("--closed", help="Only calls without other arguments than those matched.")]
ExpiresIn = Annotated[str, typer.Option(help="How long it holds: 90, 15m, 8h, 7d.", metavar="TIME")]
Uses = Annotated[int | None, typer.Option(help="For how many calls.", min=1)]

grants_app = typer.Typer(help="List, revoke and try grants: calls that need no question.", invoke_without_command=True)
Every = Annotated[bool, typer.Option("--all", help="Also those that have ended.")]


@grants_app.callback()
def grants(context: typer.Context, every: Every = False, as_json: AsJson = False) -> None:
    """List the grants that you may see."""
    if context.invoked_subcommand is None:
        list_grants(every, as_json)


@grants_app.command("list")
def list_grants(every: Every = False, as_json: AsJson = False) -> None:
    """List the grants that you may see."""
    with remote() as server:
        items = server.get("/grants", **({"all": "true"} if every else {}))["items"]
    if as_json:
        print(json_document({"items": items}))
        return
    out = console()
    for grant in items:
        head = f"{visible(grant['grant_id'])}  {visible(grant['tool'])}"
        state = grant.get("state", "live")
        print_fields(out, head + ("" if state == "live" else f"  {visible(state)}"), grant_fields(grant))
    if not items:
        out.print("There are no grants.")


@grants_app.command("revoke")
def revoke(
    ids: Annotated[list[str], typer.Argument(help="Ids of grants.", metavar="ID…", autocompletion=grant_ids)],
    as_json: AsJson = False,
) -> None:
    """End grants now: the next such call asks again."""
    statuses: list[int] = []
    results: list[Json] = []
    with remote() as server:
        for grant_id in ids:
            try:
                server.delete(f"/grants/{plain_id(grant_id)}")
            except ButlerError as error:
                statuses.append(exit_status(error))
                said = {"code": error.code, "detail": error.detail}
                results.append({"grant_id": grant_id, "ok": False, "error": said})
                if not as_json:
                    print(f"butler: {error.detail}", file=sys.stderr)
            else:
                results.append({"grant_id": grant_id, "ok": True})
                if not as_json:
                    print(f"{grant_id}: revoked")
    if as_json:
        print(json_document({"items": results}))
    if status := worst(statuses):
        raise typer.Exit(status)


@grants_app.command("preview")
def preview(
    name: Annotated[str, typer.Argument(help="A waiting approval.", metavar="CODE|ID", autocompletion=approval_codes)],
    scope: Annotated[Scope | None, typer.Option(help="For whom; without it, proposals are listed.")] = None,
    match: Match = None,
    any_arguments: AnyArguments = False,
    closed: Closed = False,
    expires_in: ExpiresIn = "",
    uses: Uses = None,
    as_json: AsJson = False,
) -> None:
    """Show which recorded calls a grant would have covered; nothing is granted."""
    grant = wish(scope, match or (), any_arguments, closed, expires_in, uses, confirm=False, option="--scope")
    with remote() as server:
        approval = required(*find(server, [name]))
        path = f"/approvals/{approval['action_id']}/grant"
        answer = server.get(path) if grant is None else server.post(path, grant)
    out = console()
    if as_json:
        print(json_document(answer))
    elif grant is not None:
        print_preview(out, approval["tool"], answer)
    else:
        for proposal in answer["proposals"]:
            covers = ", ".join(f"{visible(scope)}: {count}" for scope, count in proposal["covers"].items())
            fields = grant_fields({**proposal, "scope": "/".join(proposal["scopes"])})[:2]
            lines = [f"of the last {answer['looked_at']} recorded calls, {covers}"]
            print_fields(out, visible(proposal["label"]), [*fields, ("would cover", lines)])
        if answer.get("note"):
            out.print(visible(answer["note"]))


def plain_id(text: str) -> str:
    """An id that can stand in a path. Raises ButlerError ``invalid_request``."""
    if not text or not all((char.isascii() and char.isalnum()) or char in "-_" for char in text):
        raise ButlerError("invalid_request", f"{visible(text)!r} is no id.")
    return text
