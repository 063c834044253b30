"""What a delegated task's attempts and questions say to the person in the shell (D9, E1)."""

from __future__ import annotations

from collections.abc import Iterator

from butler.types import Json
from service.cli.plain import visible, visible_lines


def attempt_lines(attempt: Json) -> Iterator[str]:
    """How an attempt ended and why; what was said that led to it; whether it counts."""
    if attempt.get("feedback"):
        yield visible(f"rejected by a person: {attempt['feedback']}")
    kind, status = attempt["failure_class"], attempt["status"]
    detail = (attempt.get("failure") or {}).get("detail") or ""
    said = ": ".join(part for part in (kind if kind != status else None, detail) if part)
    counts = "" if attempt.get("spends", True) else " (does not count)"
    yield visible(f"attempt {attempt['attempt']}: {status}{counts}{': ' + said if said else ''}")


def waiting_lines(waiting: Json, maid_run_id: str, *, diff_was_shown: bool) -> Iterator[str]:
    """One question that a task waits with, and how it is looked at and answered."""
    for conflict in waiting["args"].get("conflicts") or ():
        yield visible(f"could not be applied: {conflict['detail']}")
        for file in conflict.get("files") or ():
            yield visible(f"{file['path']}: {file['reason']}")
            yield from (f"    {line}" for line in visible_lines(file.get("both_sides") or ""))
    yield visible(f"waits for a decision: {waiting['code']} {waiting['title']}")
    if waiting["tool"] == "session_complete" and not diff_was_shown:
        yield visible(f"    butler maids show {maid_run_id} --diff shows the change")
    yield visible(f"    butler approve {waiting['code']}, or butler deny {waiting['code']} --reason TEXT")
