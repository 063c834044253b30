"""`butler maids cancel`: stop a delegated task with all that its maid started (D9, E1)."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.plain import json_document, visible
from service.cli.remote import remote


def cancel(
    maid_run_id: Annotated[str, typer.Argument(help="The id of a maid run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Stop a task: its maid ends with all that it started, and nothing is applied."""
    with remote() as server:
        task = server.post(f"/maid-runs/{maid_run_id}/cancel", {})
    print(json_document(task) if as_json else visible(f"maid run {maid_run_id} is being cancelled"))
