"""What `butler maids show` and `butler approve` say of a delegated task (D9, E1)."""

from __future__ import annotations

from typing import Any

import pytest

from service.cli.exits import PARKED
from service.cli.maids_told import attempt_lines, waiting_lines
from service.cli.outcome import Answer, follow


def attempt(**changes: Any) -> dict[str, Any]:
    return {"attempt": 2, "status": "passed", "failure_class": None, "spends": True, "failure": None, **changes}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["attempt 2: passed"]),
        ({"feedback": "Make it longer"}, ["rejected by a person: Make it longer", "attempt 2: passed"]),
        (
            {"status": "cancelled", "failure_class": "cancelled", "spends": False},
            ["attempt 2: cancelled (does not count)"],
        ),
        (
            {"status": "failed", "failure_class": "no_changes", "failure": {"detail": "Nothing has changed."}},
            ["attempt 2: failed: no_changes: Nothing has changed."],
        ),
    ],
)
def test_an_attempt_says_how_it_ended_and_what_led_to_it(changes: dict[str, Any], lines: list[str]) -> None:
    assert list(attempt_lines(attempt(**changes))) == lines


def question(**args: Any) -> dict[str, Any]:
    return {"code": "ABCDE", "title": "Apply 1 changed file(s)", "tool": "session_complete", "args": args}


def test_a_diff_that_waits_says_where_it_is_shown() -> None:
    said = list(waiting_lines(question(), "run-1", diff_was_shown=False))
    assert said[1].strip() == "butler maids show run-1 --diff shows the change"
    assert len(list(waiting_lines(question(), "run-1", diff_was_shown=True))) == 2


def test_a_conflict_is_told_with_both_sides_before_the_question() -> None:
    both = "<<<<<<< project\nmine\n=======\nits\x1b[2J\n>>>>>>> maid\n"
    file = {"path": "notes.txt", "reason": "both sides changed the same lines", "both_sides": both}
    conflicts = [{"detail": "Nothing was applied.", "files": [file]}]
    said = list(waiting_lines(question(conflicts=conflicts), "run-1", diff_was_shown=True))
    assert said[:2] == ["could not be applied: Nothing was applied.", "notes.txt: both sides changed the same lines"]
    assert "    mine" in said and "\x1b" not in "".join(said)


class Server:
    """Says that an approved `delegate` runs, and what waits in its thread."""

    def __init__(self, waiting: str) -> None:
        self.waiting = waiting
        self.looks = 0

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        if path == "/approvals":
            return {"items": [{"code": "WAITS", "tool": self.waiting}]}
        self.looks += 1
        return {**APPROVED, "execution": "done" if self.looks > 2 else "running"}

    def result_of(self, run_id: str, action_id: str) -> str:
        return "done"


APPROVED = {
    "action_id": "act-1", "thread_id": "t", "tool": "delegate", "status": "approved", "execution": "running",
    "decision": {"decision": "approve"},
}  # fmt: skip


@pytest.mark.parametrize(("waiting", "looks"), [("maid:goose:edit", 1), ("session_complete", 1), ("append_line", 3)])
def test_an_approved_delegate_is_not_waited_for_while_its_maid_asks(waiting: str, looks: int) -> None:
    server, answer = Server(waiting), Answer("ABCDE", dict(APPROVED), run_id="run-1")
    follow(server, [answer], 60.0)  # type: ignore[arg-type]
    assert (server.looks, answer.waiting, answer.status) == (looks, ["WAITS"], PARKED)
