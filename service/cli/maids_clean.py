"""`butler maids clean`: removing trees that were kept as evidence (D9, E1)."""

from __future__ import annotations

from typing import Annotated

import typer

from butler.maids.keeping import all_kept, forget_kept, trim_kept
from config.settings import load_settings
from service.cli.exits import FAILED
from service.cli.plain import json_document, visible

DAY_SECONDS = 24 * 3600.0


def clean(
    maid_run_id: Annotated[str, typer.Argument(help="Only what is kept of this maid run.")] = "",
    older_than: Annotated[float, typer.Option(min=0.0, help="Only what is kept for so many days.")] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what is kept.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Remove the trees of maids that were kept as evidence, on this machine; the server may be running."""
    data = load_settings().data_dir.absolute()
    kept = {one.maid_run_id: one for one in all_kept(data)}
    if maid_run_id and maid_run_id not in kept:
        print(visible(f"nothing is kept of {maid_run_id}"))
        raise typer.Exit(FAILED)
    if dry_run:
        gone = list(kept)
    elif maid_run_id:
        gone = [maid_run_id] if forget_kept(data, maid_run_id) else []
    else:
        gone = trim_kept(data, older_than=older_than * DAY_SECONDS)
    told = [{"maid_run_id": one, "path": str(kept[one].folder), "bytes": kept[one].bytes} for one in gone]
    if as_json:
        print(json_document({"kept" if dry_run else "removed": told}))
        return
    for one in told:
        print(visible(f"{'kept' if dry_run else 'removed'}: {one['path']} ({one['bytes']} bytes)"))
    if not told:
        print("Nothing is kept." if dry_run else "Nothing was removed.")
