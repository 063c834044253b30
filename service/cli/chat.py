"""`butler chat`: a talk at a terminal, or one message and its reply for scripts (E1)."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal
from urllib.parse import urlsplit

import typer

from butler.types import Json
from config.environment import read_environment
from config.problems import ConfigError
from config.settings import load_settings
from service.cli.approvals import AsJson
from service.cli.completing import thread_ids
from service.cli.grants import plain_id
from service.cli.remote import Remote, remote
from service.cli.talk.threads import newest

MOST_CHARACTERS = 200_000
IfParked = Literal["queue", "decline", "reject"]


def chat(
    message: Annotated[str, typer.Argument(help="What to say; - reads it from standard input.")] = "",
    thread: Annotated[
        str, typer.Option("--thread", "-t", help="Go on in a thread.", metavar="ID|last", autocompletion=thread_ids)
    ] = "",
    new: Annotated[bool, typer.Option("--new", help="Begin a new thread, as without --thread.")] = False,
    if_parked: Annotated[IfParked, typer.Option(help="What to do while the thread waits for a decision.")] = "queue",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the reply.")] = True,
    events: Annotated[bool, typer.Option("--events", help="Print every event as one JSON object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing about tools and maids.")] = False,
    as_json: AsJson = False,
) -> None:
    """Talk. Without a message, at a terminal: go on until Ctrl-D. Else: print the reply and end."""
    if new and thread:
        raise typer.BadParameter("--new and --thread exclude each other")
    if events and (as_json or not wait):
        raise typer.BadParameter("--events goes neither with --json nor with --no-wait")
    talks = not message and not as_json and not events and wait and sys.stdin.isatty() and sys.stdout.isatty()
    if not talks:
        message = _message(message)
    with remote() as server:
        thread_id = newest(server) if thread == "last" else plain_id(thread) if thread else None
        status = _talk(server, thread_id) if talks else _once(
            server, message, thread_id, if_parked, "json" if as_json else "events" if events else "text",
            quiet=quiet, wait=wait,
        )  # fmt: skip
    if status:
        raise typer.Exit(status)


def _message(given: str) -> str:
    """The message that was given or is on standard input. Raises typer.BadParameter for none."""
    text = given
    if given in ("", "-"):
        if sys.stdin.isatty():
            print("Type the message; Ctrl-D ends it.", file=sys.stderr)
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")
    if not text.strip():
        raise typer.BadParameter("say something: butler chat MESSAGE, or give it on standard input")
    return text


def _once(
    server: Remote, message: str, thread_id: str | None, if_parked: IfParked, form: str, *, quiet: bool, wait: bool
) -> int:
    from service.cli.talk.oneshot import say_once

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    body: Json = {"message": message, "if_parked": if_parked}
    if thread_id:
        body["thread_id"] = thread_id
    return say_once(server, body, form, quiet=quiet, wait=wait)


def _talk(server: Remote, thread_id: str | None) -> int:
    # Imported here: a talk needs more than one message does, and takes longer to begin.
    from service.cli.talk.commands import CommandWords
    from service.cli.talk.history import KeptHistory
    from service.cli.talk.prompt import Prompt
    from service.cli.talk.repl import Talk
    from service.cli.talk.screen import Screen

    me = server.get("/me")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    screen = Screen()
    screen.note(f"Butler at {server.place.url}; you are {me['name']} ({me['role']})")
    screen.note("/help lists what you can type, Alt-Enter begins a new line, Ctrl-C stops an answer, Ctrl-D leaves")
    _tell_inbox(server, screen.note)
    history = KeptHistory(_history_path(server, str(me["name"])), _secrets(server))
    return Talk(server, screen, Prompt(history, CommandWords(server)), thread_id).run()


def _tell_inbox(server: Remote, note: Callable[[str], None]) -> None:
    items = server.get("/approvals", status="pending", limit=100)["items"]
    if items:
        codes = ", ".join(str(one["code"]) for one in items[:5]) + (", …" if len(items) > 5 else "")
        note(f"{len(items)} call(s) wait for a decision: {codes}; /approvals shows them")


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _history_path(server: Remote, name: str) -> Path:
    """In the data directory for the Butler of this folder, elsewhere in the person's own state directory."""
    place = server.place
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
    if place.url_from != "BUTLER_URL":
        return load_settings().data_dir / "shell" / f"history-{safe}.jsonl"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    parts = urlsplit(place.url)
    which = hashlib.sha256(place.url.encode()).hexdigest()[:8]
    return state / "butler" / f"history-{parts.hostname}-{which}-{safe}.jsonl"


def _secrets(server: Remote) -> Callable[[str], bool]:
    from butler.redact import Redactor

    token = server.place.token.get_secret_value()
    try:
        redactor = Redactor.from_environment(load_settings(), read_environment().values, extra_values=[token])
    except ConfigError:
        redactor = Redactor([token])
    return lambda line: redactor.text(line) != line
