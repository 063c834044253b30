"""`butler maids evaluate`: try a maid on the suite, show how it did, keep the class that it gets (D13)."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from butler.maids.evaluation.records import record
from butler.maids.evaluation.scoring import Evaluation, TrialResult
from butler.maids.evaluation.suite import load_suite
from butler.redact import Redactor
from config.environment import read_environment
from config.maids_file import load_maids_file
from config.settings import load_settings
from service.cli.common import open_database
from service.cli.completing import maid_ids
from service.cli.plain import json_document, visible

COLUMNS = ("task", "result", "attempts", "violations", "seconds", "tokens", "what was wrong")


def evaluate_maid(
    maid_id: Annotated[str, typer.Argument(help="The maid, as in maid_registry.yml.", autocompletion=maid_ids)],
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", help="Try this task only; may be repeated. Gives no class.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Try a maid on 20 small tasks, in folders of its own. It may cost what its model costs, and takes a while."""
    # Imported here: it brings the supervisor along, which the other commands about maids need not wait for.
    from butler.maids.launching.orphans import adopt_orphans
    from service.evaluation import evaluate, ready

    settings = load_settings()
    environ = read_environment().values
    registry = load_maids_file(settings.config_dir / "maid_registry.yml")
    maid = ready(maid_id, registry, environ)
    suite = load_suite()
    if tasks:
        suite = suite.only(tasks)
    keys = [one.endpoint.api_key_env for one in registry.maids if one.endpoint and one.endpoint.api_key_env]
    redactor = Redactor.from_environment(settings, environ, keys)
    adopt_orphans()
    with open_database(settings, make=True) as database:
        # Opened first: a class that can't be kept is not worth the wait.
        found = asyncio.run(
            evaluate(
                maid,
                suite,
                environ=environ,
                redactor=redactor,
                heard=lambda result: _progress(result, len(suite.tasks)),
            )
        )
        if found.adoption is not None:
            database.write_now(lambda connection: record(connection, found))
    if as_json:
        print(json_document(found.document()))
    else:
        _print(found)


def _progress(result: TrialResult, count: int) -> None:
    print(visible(f"{result.name}: {_result(result)} ({result.seconds:g} s)"), file=sys.stderr, flush=True)


def _result(result: TrialResult) -> str:
    if not result.ok:
        return "not done"
    return "done at once" if result.first_try else "done"


def _print(found: Evaluation) -> None:
    out = Console(highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out = Console(highlight=False, markup=False, emoji=False, width=1_000)
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for one in found.trials:
        classes = dict.fromkeys(kind for kind in one.failures if kind not in one.detail)
        wrong = "; ".join(filter(None, (one.detail, ", ".join(classes))))
        table.add_row(
            *map(visible, (one.name, _result(one), str(one.attempts), str(one.violations), f"{one.seconds:g}",
                           str(one.tokens), wrong))
        )  # fmt: skip
    out.print(table)
    totals = found.totals
    print(
        f"{totals.tasks} task(s): {totals.supervised:.0%} done with supervision, {totals.first_try:.0%} at the first "
        f"try, {totals.rerequests:.2f} re-requests a task, {totals.violations} rule violation(s), "
        f"{totals.seconds:g} s, {totals.tokens} tokens in {totals.requests} requests."
    )
    for reason in found.missed:
        print(visible(f"missed: {reason}"))
    print(f"adoption: {found.adoption or 'none is given for a part of the suite'}")
