"""The grant that goes with an approve, as options say it, and what it would have covered."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console

from butler.errors import ButlerError
from butler.types import Json
from service.cli.cards import Field, print_fields
from service.cli.plain import exact_line, visible

_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """A length of time such as ``90``, ``15m``, ``8h`` or ``7d``. Raises typer.BadParameter."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _SECONDS or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no length of time; write 90, 15m, 8h or 7d")
    return float(found[1]) * _SECONDS[found[2]]


def patterns(matches: Sequence[str]) -> dict[str, str | list[str]]:
    """``name=glob`` options as globs by argument; ``name=["git", "*"]`` for an argument that is a list.

    Raises typer.BadParameter.
    """
    found: dict[str, str | list[str]] = {}
    for match in matches:
        name, equals, glob = match.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{match!r} is not of the form name=glob")
        if name in found:
            raise typer.BadParameter(f"the argument {name!r} is matched twice")
        found[name] = _glob_list(glob) or glob
    return found


def _glob_list(text: str) -> list[str] | None:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value if texts else None


def wish(
    scope: str | None, matches: Sequence[str], any_arguments: bool, closed: bool, expires_in: str, uses: int | None,
    confirm: bool, *, option: str = "--grant",
) -> Json | None:  # fmt: skip
    """The `grant` of the HTTP contract; None without a scope, which `option` would give.

    Raises: typer.BadParameter for what means nothing.
    """
    if scope is None:
        if matches or any_arguments or closed or expires_in or uses is not None or confirm:
            raise typer.BadParameter(f"these options belong to a grant; say with {option} for whom it is")
        return None
    if any_arguments and (matches or closed):
        raise typer.BadParameter("--any-arguments excludes --match and --closed")
    grant: Json = {"scope": scope}
    # Without patterns the server takes exactly the arguments of the call.
    if matches or any_arguments:
        grant["args"] = patterns(matches)
    if closed:
        grant["closed"] = True
    if expires_in:
        grant["expires_in"] = seconds(expires_in)
    if uses is not None:
        grant["uses"] = uses
    if confirm:
        grant["confirm"] = True
    return grant


def print_preview(out: Console, tool: str, preview: Json) -> None:
    """Print a grant that is not given yet, and the recorded actions that it would have covered."""
    print_fields(out, f"grant for {visible(tool)}", grant_fields(preview["grant"]))
    covered = preview["covered"]
    lines = [f"{covered['total']} of the last {covered['looked_at']} recorded calls of this tool"]
    for item in covered["items"]:
        asked = f"{visible(str(item['requested_at']))} by {visible(str(item['requested_by']))}"
        lines.append(f"{visible(str(item['title']))}  ({asked}: {visible(str(item['status']))})")
    fields: list[Field] = [("would cover", lines)]
    if preview["wide"]:
        fields.append(("careful", ["it allows calls far beyond this one"]))
    if preview.get("note"):
        fields.append(("note", [visible(preview["note"])]))
    print_fields(out, "", fields)


def in_shell_words(error: ButlerError, name: str, grant: Json) -> ButlerError:
    """The server's word that a grant is not confirmed, with the options that this shell has for it."""
    if "confirm" not in (error.extras.get("problem", {}).get("needs") or ()):
        return error
    return ButlerError(
        error.code,
        f"Such a wide grant needs --confirm. `butler grants preview {visible(name)} --scope {grant['scope']} …` with "
        "the same --match or --any-arguments shows what it would have covered. Nothing was decided.",
        **error.extras,
    )


def refuse_what_needs_more(preview: Json, grant: Json) -> None:
    """Raises ButlerError ``forbidden`` or ``invalid_request`` for a grant that the server would not take."""
    needs = set(preview.get("needs") or ())
    if "admin" in needs:
        raise ButlerError("forbidden", "Only an admin may give such a grant. Nothing was decided.")
    if "confirm" in needs and not grant.get("confirm"):
        raise ButlerError(
            "invalid_request",
            "Such a wide grant needs --confirm; with --match name=glob it could be narrower. Nothing was decided.",
        )


def grant_fields(grant: Json) -> list[Field]:
    """The fields of a grant with labels."""
    args = [f"{visible(name)} = {exact_line(glob)}" for name, glob in grant["args"].items()]
    if grant.get("closed"):
        args.append("and no other arguments")
    whom = {"thread": "calls of the thread", "user": "whatever is asked for by the user", "everyone": "everyone"}
    one = grant.get("scope_name") or grant.get("scope_id")
    who = visible(whom.get(grant["scope"], str(grant["scope"]))) + (f" {visible(one)}" if one else "")
    fields: list[Field] = [
        ("matches", args or ["any arguments"]),
        (
            "for",
            [who],
        ),
        ("until", [visible(str(grant.get("expires_at") or "it is revoked"))]),
        ("uses left", [str(grant["uses_left"]) if grant.get("uses_left") is not None else "any number"]),
    ]
    if grant.get("by"):
        fields.append(("given by", [f"{visible(str(grant['by']))} at {visible(str(grant.get('granted_at')))}"]))
    if grant.get("state") == "void":
        fields.append(("ended", ["the tool is defined otherwise now"]))
    elif grant.get("revoked_by"):
        fields.append(("ended", [f"by {visible(str(grant['revoked_by']))} at {visible(str(grant['revoked_at']))}"]))
    if grant.get("note"):
        fields.append(("note", [visible(str(grant["note"]))]))
    return fields
