"""`butler maids run` and `butler maids show`: delegating to a running server, and how a task went (D9, E1)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from butler.errors import ButlerError
from butler.exactjson import loads_exactly
from butler.types import Json
from service.cli.completing import intents, maid_ids, maid_run_ids
from service.cli.exits import DONE, FAILED, PARKED, REFUSED, USAGE
from service.cli.grants import plain_id
from service.cli.maids_told import attempt_lines, waiting_lines
from service.cli.plain import json_document, visible, visible_lines
from service.cli.projects import as_sent
from service.cli.remote import Remote, remote

STATUS_OF_TASK = {"succeeded": DONE, "running": DONE, "waiting_approval": PARKED, "not_delegated": REFUSED}
"""Work that nobody checked is no success, and neither is what failed or was cancelled."""
LONGEST_PAUSE = 1.0
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def run(
    intent: Annotated[str, typer.Argument(help="What kind of work it is, as routes name it.", autocompletion=intents)],
    text: Annotated[str, typer.Argument(help="The task; - reads it from standard input.")],
    project: Annotated[str, typer.Option("--project", help="The project's folder, or its name in projects.yml.")] = ".",
    constraint: Annotated[list[str] | None, typer.Option("--constraint", help="What must not happen.")] = None,
    maid: Annotated[
        str | None, typer.Option("--maid", help="The maid, in place of what the routes say.", autocompletion=maid_ids)
    ] = None,
    expect: Annotated[
        str | None, typer.Option("--expect", help="The checks of this task as JSON; @FILE reads them, @- from stdin.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is over or waits for a person.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delegate a task to a maid of the running server."""
    body: Json = {
        "intent": intent, "instruction": sys.stdin.read() if text == "-" else text,
        "project_root": as_sent(project),
    }  # fmt: skip
    if constraint:
        body["constraints"] = constraint
    if maid is not None:
        body["maid_id"] = maid
    if expect is not None:
        body["expect"] = _expectation(expect)
    with remote() as server:
        ids = server.post("/maids/run", body)
        if not wait:
            print(json_document(ids) if as_json else f"maid run {ids['maid_run_id']} has begun")
            return
        task = _awaited(server, ids["maid_run_id"])
    _tell(task, as_json)


def _expectation(text: str) -> Json:
    """The checks as an object; what they may say is for the server to judge."""
    hint = "--expect"
    try:
        if text.startswith("@"):
            text = sys.stdin.read() if text == "@-" else Path(text[1:]).expanduser().read_text("utf-8")
        found = loads_exactly(text)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{text[1:]} can't be read: {error}", param_hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"this is no JSON: {error}", param_hint=hint) from None
    if not isinstance(found, dict):
        raise typer.BadParameter('expected an object, such as {"file_checks": [{"path": "a.txt"}]}', param_hint=hint)
    return found


def show(
    maid_run_id: Annotated[
        str, typer.Argument(help="The id of a maid run; leave it out for a list.", autocompletion=maid_run_ids)
    ] = "",
    diff: Annotated[bool, typer.Option("--diff", help="Print the diff too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how a task went: attempts, checks, reason."""
    with remote() as server:
        if maid_run_id:
            task = server.get(f"/maid-runs/{plain_id(maid_run_id)}")
        else:
            listed = server.get("/maid-runs", limit=20)
            if as_json:
                print(json_document(listed))
            for item in () if as_json else listed["items"]:
                said = f"{item['maid_run_id']}  {item['status']}  {item['maid_id'] or '-'}  {item['instruction']}"
                print(visible(said)[:160])
            return
    _tell(task, as_json, diff=diff)


def _awaited(server: Remote, maid_run_id: str) -> Json:
    """The task once it is over or waits; the server may be started anew meanwhile."""
    pause = 0.1
    while True:
        try:
            task = server.get(f"/maid-runs/{maid_run_id}")
        except ButlerError as error:
            if error.code != "unreachable":
                raise
            server.look_again()
        else:
            if task["status"] != "running":
                return task
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _tell(task: Json, as_json: bool, *, diff: bool = False) -> None:
    if as_json:
        print(json_document(task))
    else:
        for line in _lines(task, diff):
            print(line)
    status = STATUS_OF_TASK.get(task["status"], FAILED)
    assert status != USAGE
    if status:
        raise typer.Exit(status)


def _lines(task: Json, diff: bool) -> Iterator[str]:
    yield visible(f"maid run {task['maid_run_id']}: {task['status']}")
    yield visible(f"maid: {task['maid_id'] or 'none'}; intent: {task['intent']}; project: {task['project_root']}")
    if task["reason"]:
        yield visible(f"reason: {task['reason']}")
    for one in task["attempts"]:
        yield from attempt_lines(one)
        for check in one.get("checks") or ():
            yield visible(f"    {check['outcome']}: {check['kind']} {check['name']}")
            if check["outcome"] != "passed":
                yield visible(f"        expected {check['expected']!r}, found {check['actual'][:300]!r}")
    for change in task["changed_files"]:
        yield visible(f"{change['status']}: {change['path']}")
    for kept in task.get("kept_trees") or ():
        yield visible(f"kept until {kept['kept_until']}: {kept['path']}")
    if diff and task["diff"]:
        yield from visible_lines(task["diff"])
    for waiting in task["approvals"]:
        yield from waiting_lines(waiting, task["maid_run_id"], diff_was_shown=diff)
