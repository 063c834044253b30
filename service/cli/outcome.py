"""What became of decisions: sent, awaited, told, and turned into an exit status (E1)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from butler.errors import ButlerError
from butler.types import Json
from service.cli.cards import WORDS, decision_lines
from service.cli.exits import DONE, FAILED, PARKED, exit_status
from service.cli.grantwish import in_shell_words
from service.cli.plain import visible, visible_lines
from service.cli.remote import Remote

MOST_AT_ONCE = 200
LONGEST_PAUSE = 0.5
SILENT_SECONDS = 2.0
MOST_RESULT_LINES = 40
MOST_CODES = 20
DELEGATE = "delegate"


@dataclass
class Answer:
    """One named action: the decision on its way, and all that is known of it since."""

    name: str
    approval: Json | None = None
    body: Json | None = None
    error: ButlerError | None = None
    run_id: str | None = None
    grant: Json | None = None
    result: str | None = None
    awaited: bool = False
    was_decided: bool = False
    waiting: Sequence[str] = ()

    @property
    def settled(self) -> bool:
        """Whether nothing more is going to happen by itself."""
        one = self.approval
        return one is None or one["status"] != "approved" or one["execution"] in ("done", "failed", "unknown")

    @property
    def status(self) -> int:
        """The exit status that this one alone would give."""
        if self.error is not None:
            return exit_status(self.error)
        assert self.approval is not None
        if self.approval["status"] == "pending":
            return PARKED
        if self.approval["status"] in ("expired", "cancelled") or self.approval["execution"] in ("failed", "unknown"):
            return FAILED
        if self.awaited and not self.settled:
            return PARKED if self.waiting else FAILED
        return PARKED if self.waiting else DONE

    def public(self) -> Json:
        """The answer for programs."""
        if self.error is not None:
            said = {"code": self.error.code, "detail": self.error.detail, **self.error.extras.get("problem", {})}
            return {"name": self.name, "ok": False, "error": said, "approval": self.approval}
        return {
            "name": self.name, "ok": True, "approval": self.approval, "run_id": self.run_id, "grant": self.grant,
            "result": self.result, "still_waiting": list(self.waiting),
        }  # fmt: skip


def send(server: Remote, answers: Sequence[Answer]) -> None:
    """Send the decisions: one by its own route, several together, each with its own result."""
    todo = [answer for answer in answers if answer.error is None]
    if len(todo) == 1:
        try:
            _take(todo[0], server.post(f"/approvals/{_id(todo[0])}", todo[0].body))
        except ButlerError as error:
            grant = (todo[0].body or {}).get("grant")
            todo[0].error = in_shell_words(error, todo[0].name, grant) if grant else error
        return
    for start in range(0, len(todo), MOST_AT_ONCE):
        batch = todo[start : start + MOST_AT_ONCE]
        decisions = [{"action_id": _id(answer), **(answer.body or {})} for answer in batch]
        try:
            items = server.post("/approvals", {"decisions": decisions})["items"]
        except ButlerError as error:
            for answer in batch:
                answer.error = error
            continue
        for answer, item in zip(batch, items, strict=True):
            if item["ok"]:
                _take(answer, item)
            else:
                answer.error = server.problem(item["error"])


def _id(answer: Answer) -> str:
    assert answer.approval is not None
    return str(answer.approval["action_id"])


def _take(answer: Answer, said: Json) -> None:
    answer.approval, answer.run_id, answer.grant = said["approval"], said["run_id"], said.get("grant")
    answer.was_decided = said["approval"]["status"] != "pending"


def follow(server: Remote, answers: Sequence[Answer], seconds: float) -> None:
    """Wait until the decided calls have run, through a restart of the server too, and see what still waits."""
    end = time.monotonic() + seconds
    for answer in answers:
        if answer.error is None:
            _await(server, answer, end)
    waiting: dict[str, list[str]] = {}
    for answer in answers:
        if answer.error is None and answer.approval is not None:
            thread = answer.approval["thread_id"]
            try:
                if thread not in waiting:
                    page = server.get("/approvals", status="pending", thread_id=thread, limit=MOST_AT_ONCE)
                    waiting[thread] = [str(one["code"]) for one in page["items"]]
                answer.waiting = waiting[thread]
            except ButlerError as error:
                answer.error = _recorded(answer, error)


def _await(server: Remote, answer: Answer, end: float) -> None:
    answer.awaited = True
    pause, told = 0.02, time.monotonic() + SILENT_SECONDS
    ran = not answer.settled
    while not answer.settled:
        if time.monotonic() > end:
            return
        if time.monotonic() > told:
            print(f"{visible(answer.name)} is approved; waiting until it has run …", file=sys.stderr, flush=True)
            told = end + 1
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
        try:
            answer.approval = server.get(f"/approvals/{_id(answer)}")
        except ButlerError as error:
            if error.code != "unreachable":
                answer.error = _recorded(answer, error)
                return
            if time.monotonic() > end:
                answer.error = _recorded(answer, error)
                return
            server.look_again()
        else:
            if answer.approval["tool"] == DELEGATE and not answer.settled and _asks(server, answer):
                return
    if ran and answer.run_id is not None:
        answer.result = server.result_of(answer.run_id, _id(answer))


def _asks(server: Remote, answer: Answer) -> bool:
    """Whether the maid of a delegated task asks for something: its call goes on only after the answer."""
    assert answer.approval is not None
    page = server.get("/approvals", status="pending", thread_id=answer.approval["thread_id"], limit=MOST_AT_ONCE)
    return any(one["tool"] == "session_complete" or one["tool"].startswith("maid:") for one in page["items"])


def _recorded(answer: Answer, error: ButlerError) -> ButlerError:
    return ButlerError(
        error.code,
        f"The decision is recorded, but what became of it can't be seen: {error.detail} "
        f"`butler approvals show {_id(answer)}` tells how it ended.",
    )


def tell(out: Console, answers: Sequence[Answer]) -> None:
    """Print one line for each decision, what its call gave, and errors on standard error."""
    for answer in answers:
        if answer.error is not None:
            _tell_error(answer, alone=len(answers) == 1)
            continue
        assert answer.approval is not None
        out.print(f"{visible(answer.name)}  {visible(answer.approval['tool'])}: {_sentence(answer)}")
        if answer.result:
            lines = visible_lines(answer.result.rstrip("\n"))
            for line in lines[:MOST_RESULT_LINES]:
                out.print(f"    {line}")
            if len(lines) > MOST_RESULT_LINES:
                out.print(
                    f"    … and {len(lines) - MOST_RESULT_LINES} more lines; the thread's transcript has them all"
                )
        if answer.grant is not None:
            out.print(f"    granted: {visible(str(answer.grant.get('grant_id')))}")
            if answer.grant.get("note"):
                out.print(f"    note: {visible(str(answer.grant['note']))}")
    for line in dict.fromkeys(
        f"Thread {visible(answer.approval['thread_id'])} still waits for: {_listed(answer.waiting)}"
        for answer in answers
        if answer.waiting and answer.approval is not None
    ):
        out.print(line)


def _listed(codes: Sequence[str]) -> str:
    more = ", …" if len(codes) > MOST_CODES else ""
    return ", ".join(map(visible, codes[:MOST_CODES])) + more


def _sentence(answer: Answer) -> str:
    approval = answer.approval or {}
    status, execution = approval["status"], approval["execution"]
    if status == "pending" and execution == "unknown":
        return "Butler stopped while it ran; it may or may not have taken effect, and waits for a new decision"
    if status == "pending" and answer.was_decided:
        return f"asked anew as {visible(str(approval['code']))}: {visible(str(approval['reason']))}"
    if status == "pending":
        needed = approval.get("approvals_needed")
        by = len(approval.get("approved_by") or ())
        return f"approved by {by} of {needed}; it waits for the others" if needed else "still waits for a decision"
    kind = str((approval["decision"] or {}).get("decision"))
    word = WORDS.get(kind, visible(str(status)))
    if kind in ("reject", "respond"):
        return word
    if not answer.settled:
        return f"{word}; it has not finished yet" if answer.awaited else word
    return f"{word}, {execution}"


def _tell_error(answer: Answer, *, alone: bool) -> None:
    assert answer.error is not None
    who = "" if alone else f"{visible(answer.name)}: "
    print(f"butler: {who}{answer.error.detail}", file=sys.stderr)
    stands = answer.error.extras.get("problem", {}).get("decision")
    if isinstance(stands, dict):
        args = answer.approval["args"] if answer.approval else {}
        for line in decision_lines(stands, args):
            print(f"    {line}", file=sys.stderr)
