"""`butler chat MESSAGE` and pipes: the reply alone on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

from butler.errors import ButlerError
from butler.types import Json
from service.cli.cards import MARGIN, approval_fields
from service.cli.exits import DONE, FAILED, PARKED, exit_status, nobody_reads
from service.cli.plain import json_document, visible
from service.cli.remote import Remote
from service.cli.sse import Event
from service.cli.talk.line import Ask
from service.cli.talk.turn import Left, Turns
from service.cli.talk.words import harmless

INTERRUPTED = 130


@dataclass
class Pipe:
    """Tells a turn to programs; `form` says what standard output is for."""

    form: str
    quiet: bool = False
    wrote: bool = field(default=False, init=False)
    at_start: bool = field(default=True, init=False)
    run: Json = field(default_factory=dict, init=False)

    def text(self, piece: str) -> None:
        """Words of the reply, at once."""
        if self.form == "text":
            shown = harmless(piece)
            sys.stdout.write(shown)
            sys.stdout.flush()
            self.at_start = shown.endswith("\n") or (self.at_start and not shown)

    def note(self, line: str, *, whole: bool = True) -> None:
        """A line beside it."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def heard(self, event: Event) -> None:
        """Every event, for who reads them all."""
        if event.name == "run":
            self.run = event.data
        if self.form == "events":
            print(visible(json.dumps({"id": event.seq, "event": event.name, "data": event.data})), flush=True)

    def end(self) -> None:
        """End the last line."""
        if not self.at_start:
            print(flush=True)
            self.at_start = True


def say_once(server: Remote, body: Json, form: str, *, quiet: bool, wait: bool) -> int:
    """Say something and tell what comes of it; gives the exit status. Raises ButlerError."""
    if not wait:
        return _told(server, server.post("/chat", {**body, "wait": False}), form)
    pipe = Pipe(form, quiet)
    turns = Turns(server, pipe)
    try:
        outcome = turns.hear(Ask("POST", "/chat", body))
        if outcome["status"] == "queued" and not outcome["approvals"]:
            pipe.note("it waits until what was said before is answered")
            outcome = turns.join(outcome["run_id"])
    except Left:
        pipe.end()
        return INTERRUPTED
    except BrokenPipeError:
        nobody_reads()
        print(
            f"butler: nobody reads the reply any more; the turn goes on: butler threads show "
            f"{visible(str(pipe.run.get('thread_id')))}",
            file=sys.stderr,
        )
        return FAILED
    pipe.end()
    return _told(server, outcome, form)


def _told(server: Remote, outcome: Json, form: str) -> int:
    if form == "json":
        print(json_document(outcome), flush=True)
    elif form == "text":
        _tell(server, outcome)
    return status_of(outcome)


def _tell(server: Remote, outcome: Json) -> None:
    thread = visible(outcome["thread_id"])
    approvals = outcome.get("approvals") or []
    if outcome["status"] in ("running", "queued") and not approvals:
        print(f"butler: taken in; butler threads show {thread}", file=sys.stderr)
    elif outcome["status"] == "failed":
        error = outcome["error"] or {}
        print(f"butler: {visible(str(error.get('detail') or 'the turn failed'))}", file=sys.stderr)
    elif outcome["status"] == "cancelled":
        print("butler: the turn was stopped.", file=sys.stderr)
    if outcome["status"] in ("parked", "queued") and approvals:
        print_waiting(server, outcome)


def print_waiting(server: Remote, outcome: Json) -> None:
    """What waits, whole, and how to go on, on standard error."""
    from datetime import UTC, datetime

    thread = outcome["thread_id"]
    try:
        items = list(server.pages("/approvals", status="pending", thread_id=thread, waits_for="true"))
    except ButlerError:
        items = outcome["approvals"]
    for approval in items:
        print(f"{visible(approval['code'] or approval['action_id'])}  {visible(approval['tool'])}", file=sys.stderr)
        for label, lines in approval_fields(approval, datetime.now(UTC)):
            for number, line in enumerate(lines):
                print((f"  {label}" if not number else "").ljust(MARGIN) + line, file=sys.stderr)
    kept = " Your message is kept and answered after that." if outcome["status"] == "queued" else ""
    print(
        f"butler: {len(items)} call(s) of thread {visible(thread)} wait for a decision.{kept} "
        f"Then: butler threads show {visible(thread)}",
        file=sys.stderr,
    )


def status_of(outcome: Json) -> int:
    """The exit status that an Outcome gives (E1)."""
    status = outcome["status"]
    if status == "failed":
        return exit_status(ButlerError(str((outcome["error"] or {}).get("code")), ""))
    if status in ("parked", "queued") and (outcome.get("approvals") or status == "parked"):
        return PARKED
    return FAILED if status == "cancelled" else DONE
