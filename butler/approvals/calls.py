"""What goes into the ledger and what comes out of a claim: plain values around its transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from butler.approvals.actions import Action
from butler.types import Json, Ruling


@dataclass(frozen=True)
class Proposal:
    """A valid tool call before its verdict is in the ledger."""

    call_id: str
    position: int
    tool: str
    args: Json
    title: str
    tool_digest: str


@dataclass(frozen=True)
class Objection:
    """Why an action must not run after all: `ask` sends it to a person, otherwise it is refused.

    `digest` is that of the tool's new definition where it has changed since a person approved the action.
    """

    reason: str
    ruling: Ruling | None = None
    digest: str | None = None

    @property
    def ask(self) -> bool:
        """Whether a person may still say yes."""
        return self.ruling is not None and self.ruling.verdict == "approve"


Ruler = Callable[[Connection, Proposal], Ruling]
Check = Callable[[Connection, Action], Objection | None]


@dataclass(frozen=True)
class Claim:
    """The answer to `begin`: the row as it stands, and whether the caller, and no one else, has to run it."""

    action: Action
    won: bool = False
