"""What comes next for a delegated task, from the database alone: the same answer after a crash as without one (D7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from butler.maids.contract import FailureClass
from butler.maids.store import Attempt, MaidRun

Step = Literal["route", "prepare", "permission", "attempt", "verify", "review", "apply", "report"]
MOST_DETAIL = 300
MOST_ROWS_MORE = 12
"""Attempts that don't count (a provider's trouble, a slow person) are bounded too: so many beyond the others."""


@dataclass(frozen=True)
class Bounds:
    """How often a task is tried, and which failures are worth another try."""

    max_attempts: int = 3
    may_retry: Callable[[FailureClass], bool] = lambda _: True
    provider_retries: int = 3


@dataclass(frozen=True)
class Next:
    """The next step; `reason` says why a task that goes to ``report`` has failed."""

    step: Step
    reason: str = ""


def next_step(run: MaidRun, attempts: Sequence[Attempt], bounds: Bounds) -> Next:
    """Where a task goes on."""
    if run.is_over:
        return Next("report")
    if run.maid_id is None:
        return Next("route")
    if run.workspace is None:
        return Next("prepare")
    if not attempts:
        return Next("attempt")
    last = attempts[-1]
    match last.status:
        case "running":
            return Next("verify" if last.finished_at else "attempt")
        case "passed" | "unverified":
            # Whoever rejected the diff has said what to do differently.
            return Next("attempt" if run.feedback else "review")
        case "cancelled" | "interrupted":
            # Killed while its maid waited for a person, it waits for the verdict as one that was cancelled for that.
            return _room(run, attempts, bounds) or Next("permission")
        case "failed":
            return _after_failure(run, attempts, bounds)


def _room(run: MaidRun, attempts: Sequence[Attempt], bounds: Bounds) -> Next | None:
    """The end where no attempt is left."""
    most = bounds.max_attempts + run.extra_attempts
    spent = sum(one.spends for one in attempts)
    if spent >= most:
        return Next("report", f"All {most} attempts are spent; the last one ended as {_named(attempts[-1])}")
    if len(attempts) >= most + MOST_ROWS_MORE:
        return Next("report", f"It was started {len(attempts)} times without an end.")
    return None


def _after_failure(run: MaidRun, attempts: Sequence[Attempt], bounds: Bounds) -> Next:
    last = attempts[-1]
    kind = last.failure_class or "unknown"
    if kind == "provider_error":
        if (last.evidence.get("failure") or {}).get("needs_person"):
            why = "The model provider refuses: its key, credit or model, or the length of the task, needs a person."
            return Next("report", why)
        row = 0
        for one in reversed(attempts):
            if one.failure_class != "provider_error":
                break
            row += 1
        if row > bounds.provider_retries or not bounds.may_retry(kind):
            return Next("report", f"The model provider failed {row} times in a row.")
        return _room(run, attempts, bounds) or Next("attempt")
    if not bounds.may_retry(kind):
        return Next("report", f"The attempt ended as {_named(last)} Another one would not help.")
    earlier = [one for one in attempts[:-1] if one.spends and one.status == "failed"]
    if earlier and _alike(earlier[-1], last):
        return Next("report", f"Two attempts failed in the same way: {_named(last)}")
    return _room(run, attempts, bounds) or Next("attempt")


def _named(attempt: Attempt) -> str:
    """How an attempt ended, with what was seen."""
    detail = str((attempt.evidence.get("failure") or {}).get("detail") or "")[:MOST_DETAIL]
    kind = attempt.failure_class or attempt.status
    return f"{kind}: {detail.rstrip('.')}." if detail else f"{kind}."


def _alike(one: Attempt, other: Attempt) -> bool:
    """Whether two attempts failed identically: the same class, the same check with the same finding, the same diff."""
    mark = (one.evidence.get("failure") or {}).get("fingerprint")
    return mark is not None and mark == (other.evidence.get("failure") or {}).get("fingerprint")
