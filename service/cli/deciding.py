"""`butler approve`, `deny` and `respond`: decisions typed in a shell, about exactly what was shown (A7, E1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from butler.errors import ButlerError
from butler.types import Json
from service.cli.approvals import AsJson, find
from service.cli.asking import says_yes
from service.cli.cards import argument_lines, console, is_masked, print_approval, print_fields
from service.cli.completing import approval_codes
from service.cli.editor import edit_arguments, read_arguments
from service.cli.exits import PARKED, worst
from service.cli.grants import AnyArguments, Closed, ExpiresIn, Match, Scope, Uses
from service.cli.grantwish import print_preview, refuse_what_needs_more, wish
from service.cli.outcome import Answer, follow, send, tell
from service.cli.plain import json_document
from service.cli.remote import Remote, remote

Names = Annotated[
    list[str], typer.Argument(help="Codes or ids of approvals.", metavar="CODE|ID…", autocompletion=approval_codes)
]
Reason = Annotated[str | None, typer.Option(help="Why; the model reads it, and the audit keeps it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask on a terminal.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the call has run.")]
Seconds = Annotated[float, typer.Option("--timeout", help="How long to wait, in seconds.", min=0)]
Fingerprint = Annotated[str | None, typer.Option(help="Decide only if this is the fingerprint of what waits.")]
WAIT_SECONDS = 300.0
Prepare = Callable[[Remote, Json], Json]
"""Makes the decision about an approval; it may look, show and ask. Raises ButlerError or `Left`."""


class Left(Exception):
    """The person said no to the question: nothing is decided."""


def approve(
    names: Names,
    edit: Annotated[bool, typer.Option("--edit", help="Change the arguments in $VISUAL or $EDITOR first.")] = False,
    args: Annotated[str | None, typer.Option(help="Run it with these arguments instead.", metavar="JSON")] = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    grant: Annotated[Scope | None, typer.Option(help="Allow such calls from now on, for whom.")] = None,
    match: Match = None,
    any_arguments: AnyArguments = False,
    closed: Closed = False,
    expires_in: ExpiresIn = "",
    uses: Uses = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Take a grant that is wide.")] = False,
    wait: Wait = True,
    timeout: Seconds = WAIT_SECONDS,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let calls run, once each; on a terminal they are shown first."""
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    wished = wish(grant, match or (), any_arguments, closed, expires_in, uses, confirm)
    single = [option for option, given in (("--edit", edit), ("--args", args is not None), ("--grant", wished),
                                           ("--fingerprint", fingerprint)) if given]  # fmt: skip
    if len(names) > 1 and single:
        raise typer.BadParameter(f"{single[0]} goes with one approval, not {len(names)}")
    if edit + (args is not None) + (wished is not None) > 1:
        raise typer.BadParameter("--edit, --args and --grant exclude each other")
    given = read_arguments(args) if args is not None else None

    def prepare(server: Remote, approval: Json) -> Json:
        out = console()
        if asks:
            print_approval(out, approval)
        body: Json = {"decision": "approve", "fingerprint": fingerprint or approval["fingerprint"]}
        if edit or given is not None:
            changed = given if given is not None else edit_arguments(approval, is_masked(approval))
            body |= {"decision": "edit", "args": changed}
            if asks:
                print_fields(out, "instead, it would run with", [("arguments", argument_lines(changed))])
        if wished is not None:
            body["grant"] = wished
            if asks:
                _show_grant(server, approval, wished)
        if asks and not says_yes("Run it?" if wished is None else "Run it, and give this grant?"):
            raise Left
        return body | ({"reason": reason} if reason is not None else {})

    _decide(names, prepare, timeout if wait else None, as_json)


def deny(
    names: Names,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    as_json: AsJson = False,
) -> None:
    """Reject calls: nothing runs."""
    if len(names) > 1 and fingerprint:
        raise typer.BadParameter(f"--fingerprint goes with one approval, not {len(names)}")

    def prepare(_server: Remote, approval: Json) -> Json:
        body = {"decision": "reject", "fingerprint": fingerprint or approval["fingerprint"]}
        return body | ({"reason": reason} if reason is not None else {})

    _decide(names, prepare, 0.0, as_json)


def respond(
    name: Annotated[str, typer.Argument(help="The approval.", metavar="CODE|ID", autocompletion=approval_codes)],
    text: Annotated[str, typer.Argument(help="What counts as the tool's result.")],
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Answer in the tool's place: nothing runs, and the text is the result."""

    def prepare(_server: Remote, approval: Json) -> Json:
        body = {"decision": "respond", "response": text, "fingerprint": approval["fingerprint"]}
        return body | ({"reason": reason} if reason is not None else {})

    _decide([name], prepare, 0.0, as_json)


def _show_grant(server: Remote, approval: Json, wished: Json) -> None:
    asked = {name: value for name, value in wished.items() if name != "confirm"}
    preview = server.post(f"/approvals/{approval['action_id']}/grant", asked)
    print_preview(console(), approval["tool"], preview)
    refuse_what_needs_more(preview, wished)


def _decide(names: Sequence[str], prepare: Prepare, seconds: float | None, as_json: bool) -> None:
    """Find, prepare, send and tell. Raises typer.Exit with the worst status of all."""
    left = 0
    answers: list[Answer] = []
    with remote() as server:
        for name, found in zip(names, find(server, names, waits_for=not as_json), strict=True):
            if isinstance(found, ButlerError):
                answers.append(Answer(name, error=found))
                continue
            if any(one.approval and one.approval["action_id"] == found["action_id"] for one in answers):
                continue
            answer = Answer(name, found)
            try:
                answer.body = prepare(server, found)
            except Left:
                left += 1
                print(f"{name}: left as it is; it still waits.")
                continue
            except ButlerError as error:
                answer.error = error
            answers.append(answer)
        send(server, answers)
        if seconds is not None:
            follow(server, answers, seconds)
    if as_json:
        print(json_document({"items": [answer.public() for answer in answers]}))
    else:
        tell(console(), answers)
    if status := worst([*(answer.status for answer in answers), *([PARKED] if left else [])]):
        raise typer.Exit(status)
