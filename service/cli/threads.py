"""`butler threads`: the talks, the one that changed last first (E1)."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.approvals import AsJson
from service.cli.cards import console
from service.cli.plain import json_document, visible
from service.cli.remote import remote


def threads(
    parked: Annotated[bool, typer.Option("--parked", help="Only those that wait for a decision.")] = False,
    as_json: AsJson = False,
) -> None:
    """List threads, the one that changed last first."""
    with remote() as server:
        items = [item for item in server.pages("/threads") if not parked or item["pending"]]
    if as_json:
        print(json_document({"items": items}))
        return
    out = console()
    for item in items:
        waiting = f", {item['pending']} waiting" if item["pending"] else ""
        out.print(f"{visible(item['thread_id'])}  {visible(item['status'])}{waiting}  {visible(item['updated_at'])}")
        out.print(f"    {visible(item['title'] or '(no title yet)')}")
    if not items:
        out.print("There are no threads.")
