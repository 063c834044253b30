"""A row of the ledger: one tool call, its verdict, its decision and its execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Row

from butler.clock import now, stamp
from butler.people import Principal
from butler.types import Json

ActionStatus = Literal["allowed", "refused", "pending", "approved", "rejected", "expired", "cancelled"]
Execution = Literal["none", "started", "done", "failed", "unknown"]
DecisionKind = Literal["approve", "edit", "reject", "respond"]

STANDARD_DECISIONS: tuple[DecisionKind, ...] = ("approve", "edit", "reject", "respond")
UNKNOWN_DECISIONS: tuple[DecisionKind, ...] = ("approve", "reject", "respond")
"""After a crash an edit would be a different action; only repeat, give up and treat-as-done remain."""


@dataclass(frozen=True)
class Action:
    """One tool call in the ledger; the fields are those of the table ``actions``."""

    action_id: str
    code: str | None
    thread_id: str
    run_id: str
    call_id: str
    position: int
    tool: str
    args: Json
    fingerprint: str
    tool_digest: str
    verdict: str
    title: str
    reason: str
    rule: str
    risk: str
    deciders: list[str] | None
    requested_by: str
    requester_id: str
    requester_role: str
    requested_at: str
    expires_at: str | None
    status: ActionStatus
    decision: Json | None
    run_args: Json | None
    run_fingerprint: str | None
    execution: Execution
    started_at: str | None
    finished_at: str | None
    attempts: int
    result: str | None
    result_is_error: bool | None
    approvals_needed: int = 1
    approved_by: list[Json] | None = None
    escalate_at: str | None = None
    escalate_to: list[str] | None = None
    escalated_at: str | None = None

    @classmethod
    def of_row(cls, row: Row[Any]) -> Action:
        """Read a row of ``SELECT actions.*``."""
        return cls(**row._mapping)

    @property
    def allowed_decisions(self) -> tuple[DecisionKind, ...]:
        """What a person may answer now."""
        return UNKNOWN_DECISIONS if self.execution == "unknown" else STANDARD_DECISIONS

    @property
    def has_expired(self) -> bool:
        """Whether nobody may decide it any more, although no one has written that down yet."""
        return self.status == "pending" and self.expires_at is not None and self.expires_at <= stamp(now())

    @property
    def shown_args(self) -> Json:
        """The arguments that a decision now is about: after a crash those that ran, edited or not (A7)."""
        return self.run_args if self._asks_about_edit and self.run_args is not None else self.args

    @property
    def shown_fingerprint(self) -> str:
        """The fingerprint of `shown_args`."""
        return self.run_fingerprint if self._asks_about_edit and self.run_fingerprint else self.fingerprint

    @property
    def _asks_about_edit(self) -> bool:
        return self.status == "pending" and self.execution == "unknown" and self.run_args is not None

    def may_be_decided_by(self, person: Principal) -> bool:
        """B6: an admin, or whom the policy names; never an agent."""
        if person.role == "agent":
            return False
        if person.is_admin:
            return True
        deciders = self.deciders if self.deciders is not None else ["admin"]
        if person.role in deciders or person.name in deciders:
            return True
        return "requester" in deciders and person.user_id == self.requester_id
