"""What a tool gives back: a JSON value, and for chat what a person would read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from butler.errors import ButlerError
from butler.types import Json
from service.mcp.offer import RUN_PREFIX
from service.openai.showing import parked_text, queued_text

HOW_TO_DECIDE = (
    "A person decides: on Butler's page, with `butler approve CODE`, or through `approvals_decide` once they have told "
    "you what to decide. Until then this thread waits; calling again does not help."
)


@dataclass(frozen=True)
class Answer:
    """`value` is the structured content; `text` stands beside it for people, empty where the value says it all."""

    value: Json
    text: str = ""
    is_error: bool = False


def stood(outcome: Json, waiting: Sequence[Json]) -> Answer:
    """An Outcome; `waiting` are its approvals, each with whom it waits for."""
    status, said = outcome["status"], [outcome["reply"]]
    if status == "parked":
        said += [parked_text(waiting), HOW_TO_DECIDE]
    elif status == "queued":
        said += [queued_text(waiting), *([HOW_TO_DECIDE] if waiting else [])]
    elif status == "running":
        said = [f"Butler is still at it. Read the resource {RUN_PREFIX}{outcome['run_id']} for the answer later."]
    elif status == "failed" and outcome["error"]:
        said.append(f"It failed: {outcome['error']['code']}: {outcome['error']['detail']}")
    elif status == "cancelled":
        said.append("This turn was cancelled.")
    return Answer(outcome, "\n\n".join(part for part in said if part))


def begun(ids: Json) -> Answer:
    """A task that was taken in."""
    return Answer(ids, f"Taken in. Ask maid_run_status with maid_run_id {ids['maid_run_id']} how it goes.")


def task(found: Json) -> Answer:
    """A task with its attempts."""
    waits = HOW_TO_DECIDE if found["status"] == "waiting_approval" else ""
    return Answer(found, waits)


def listed(page: Json) -> Answer:
    """The inbox."""
    return Answer(page, "" if page["items"] else "Nothing waits for a decision.")


def decided(value: Json, in_part: bool) -> Answer:
    """A decision that was taken in."""
    return Answer(value, "Noted; more people have to approve before it runs." if in_part else "")


def refused(error: ButlerError) -> Answer:
    """A refusal, with the code that it has on every face. Without the number of HTTP: `status` means other things."""
    return Answer({"code": error.code, "detail": error.detail, **error.extras}, is_error=True)
