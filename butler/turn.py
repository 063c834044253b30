"""The state of a turn as plain JSON types: what the checkpoint holds and the nodes exchange (C1)."""

from __future__ import annotations

from typing import Literal, TypedDict

from butler.types import Json

RUN = "run"
"""On a user message: its run, under which the transcript has the turn. Never sent."""
FAILED = "failed"
"""On a tool message: the call was refused, not run, or went wrong. Never sent."""


class Incoming(TypedDict):
    """A person's message on its way in; `run_id` tells the turns of a thread apart."""

    run_id: str
    thread_id: str
    message: str
    user_id: str
    user_name: str
    user_role: Literal["admin", "member", "agent"]


class Call(TypedDict):
    """A tool call of the current round after validation; `action_id` is empty when it needs no execution."""

    call_id: str
    position: int
    tool: str
    action_id: str


class Result(TypedDict):
    """The one result of a call; `action_id` is empty for calls that never reached the ledger."""

    text: str
    is_error: bool
    action_id: str


class Ending(TypedDict):
    """How a turn ended: `error` is ``{code, detail}`` of a failed one."""

    status: Literal["done", "failed"]
    reply: str
    error: Json | None


class TurnState(TypedDict, total=False):
    """Everything that survives between nodes.

    `messages` is the recent window in the OpenAI chat format, older talk lives in `notes` and in `summary`, which is
    made of them (`butler.memory.notes`); threads folded by older versions have a summary alone. Where the person was
    told something else than the model should read later, ``shown`` beside ``content`` holds it; it is never sent.
    `turn_start` is the index of the user message of the run `turn_of`; both change only once `intake` has put that
    message in. `rounds` counts model → tools rounds over the whole turn, parks included (A1). `memory_block` says
    whether the prompt has one; its text is kept elsewhere, where it can be erased.
    """

    incoming: Incoming
    messages: list[Json]
    summary: str
    notes: list[Json]
    last_compacted_at: str | None
    memory_block: bool
    turn_of: str
    turn_start: int
    rounds: int
    usage: dict[str, int]
    command: bool
    calls: list[Call]
    results: dict[str, Result] | None
    ending: Ending | None
    compact_due: bool


class ActInput(TypedDict):
    """What one ``Send`` carries to `act`: a single call."""

    call: Call
    incoming: Incoming
