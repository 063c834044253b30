"""`butler threads`: the talks, the one that changed last first; one of them whole; their end (E1)."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from butler.errors import ButlerError
from butler.types import Json
from service.cli.approvals import AsJson
from service.cli.asking import says_yes
from service.cli.cards import console
from service.cli.completing import thread_ids
from service.cli.exits import DONE, PARKED, exit_status, worst
from service.cli.grants import plain_id
from service.cli.plain import json_document, visible
from service.cli.remote import Remote, remote
from service.cli.talk.threads import newest
from service.cli.talk.words import harmless

PAGE = 200
Parked = Annotated[bool, typer.Option("--parked", help="Only those that wait for a decision.")]
ThreadId = Annotated[str, typer.Argument(help="The thread; `last` for the newest.", autocompletion=thread_ids)]

threads_app = typer.Typer(help="List threads, read them, search and delete them.", invoke_without_command=True)


@threads_app.callback()
def threads(context: typer.Context, parked: Parked = False, as_json: AsJson = False) -> None:
    """List threads, the one that changed last first."""
    if context.invoked_subcommand is None:
        list_threads(parked, as_json)


@threads_app.command("list")
def list_threads(parked: Parked = False, as_json: AsJson = False) -> None:
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


@threads_app.command("show")
def show(thread: ThreadId = "last", as_json: AsJson = False) -> None:
    """Print what was said in a thread, whole."""
    with remote() as server:
        thread_id = _named(server, thread)
        state = server.get(f"/threads/{thread_id}")
        lines = _transcript(server, thread_id)
    if as_json:
        print(json_document({**state, "messages": lines}))
        return
    print(f"{visible(thread_id)}  {visible(state['status'])}  {visible(state['title'] or '(no title yet)')}")
    for line in lines:
        who = line["role"] if line["role"] != "tool" else f"tool {line.get('tool') or ''}".strip()
        print(f"\n{visible(who)}  {visible(line['created_at'])}")
        for piece in harmless(line["text"]).split("\n"):
            print(f"    {piece}" if piece else "")
    if state["pending"]:
        print(f"\n{state['pending']} call(s) wait: butler approvals --thread {visible(thread_id)}")


@threads_app.command("search")
def search(
    words: Annotated[list[str], typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many at most.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find something in all that was said in your own threads."""
    with remote() as server:
        answer = server.get("/search", query=" ".join(words), limit=limit)
    if as_json:
        print(json_document(answer))
        return
    for item in answer["items"]:
        title = visible(item.get("thread_title") or "")
        print(f"{visible(item['thread_id'])}  {visible(item['role'])}  {visible(item['created_at'])}  {title}")
        for piece in harmless(str(item.get("text") or item.get("untrusted_text") or "")).strip().split("\n"):
            print(f"    {piece}")
    if not answer["items"]:
        print("Nothing was found.")


@threads_app.command("delete")
def delete(
    threads: Annotated[list[str], typer.Argument(help="Threads.", metavar="ID…", autocompletion=thread_ids)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask on a terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete threads with all that was said and waits in them; the audit stays."""
    statuses: list[int] = []
    results: list[Json] = []
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    with remote() as server:
        for name in threads:
            try:
                state = server.get(f"/threads/{plain_id(name)}")
                title = visible(state["title"] or "(no title yet)")
                if asks and not says_yes(f"Delete {title} with all that was said in it?"):
                    statuses.append(PARKED)
                    continue
                server.delete(f"/threads/{plain_id(name)}")
            except ButlerError as error:
                statuses.append(exit_status(error))
                said = {"code": error.code, "detail": error.detail}
                results.append({"thread_id": name, "ok": False, "error": said})
                print(f"butler: {error.detail}", file=sys.stderr)
                continue
            statuses.append(DONE)
            results.append({"thread_id": name, "ok": True})
            if not as_json:
                print(f"{name}: deleted")
    if as_json:
        print(json_document({"items": results}))
    if status := worst(statuses):
        raise typer.Exit(status)


def _named(server: Remote, name: str) -> str:
    return newest(server) if name == "last" else plain_id(name)


def _transcript(server: Remote, thread_id: str) -> list[Json]:
    """All lines, oldest first."""
    lines: list[Json] = []
    before = ""
    while True:
        page = server.get(f"/threads/{thread_id}/messages", limit=PAGE, before=before)["items"]
        lines[:0] = page
        if len(page) < PAGE:
            return lines
        before = page[0]["id"]
