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
SHARED_DECISIONS: tuple[DecisionKind, ...] = ("approve", "reject")
"""Where several people have to approve: an edit or an answer of one of them would be nobody else's."""


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
        if self.execution == "unknown":
            return UNKNOWN_DECISIONS
        return SHARED_DECISIONS if self.approvals_needed > 1 else STANDARD_DECISIONS

    @property
    def has_expired(self) -> bool:
        """Whether nobody may decide it any more, although no one has written that down yet."""
        return self.status == "pending" and self.expires_at is not None and self.expires_at <= stamp(now())

    @property
    def escalation_is_due(self) -> bool:
        """Whether `escalate_to` may decide too, although no one has written that down yet."""
        due = self.escalate_at is not None and self.escalate_at <= stamp(now())
        return due and self.escalated_at is None and self.status == "pending"

    @property
    def shown_args(self) -> Json:
        """The arguments that a decision now is about: of a call that is asked about again, those of its edit (A7)."""
        return self.run_args if self._asks_about_edit and self.run_args is not None else self.args

    @property
    def shown_fingerprint(self) -> str:
        """The fingerprint of `shown_args`."""
        return self.run_fingerprint if self._asks_about_edit and self.run_fingerprint else self.fingerprint

    @property
    def _asks_about_edit(self) -> bool:
        return self.status == "pending" and self.run_args is not None

    def approval_of(self, person: Principal) -> Json | None:
        """The approval that this person has given already, where several are needed."""
        return next((one for one in self.approved_by or () if one["user_id"] == person.user_id), None)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The names and roles that the policy lets decide now."""
        named = self.deciders if self.deciders is not None else ["admin"]
        later = self.escalate_to or [] if self.escalated_at is not None or self.escalation_is_due else []
        return tuple(dict.fromkeys((*named, *later)))

    def may_be_decided_by(self, person: Principal) -> bool:
        """B6: an admin, or whom the policy names; never an agent, nor a requester whom the policy leaves out."""
        if person.role == "agent" or self._leaves_out(person):
            return False
        named = set(self.waits_for)
        is_requester = person.user_id == self.requester_id
        return person.is_admin or bool(named & _words(person, is_requester=is_requester))

    def _leaves_out(self, person: Principal) -> bool:
        """Whether somebody else must decide: the rule names deciders, and its requester is none of them.

        Escalation lets the requester in only by name: that time has passed makes nobody their own judge.
        """
        if self.deciders is None or person.user_id != self.requester_id:
            return False
        if _words(person, is_requester=True) & set(self.deciders):
            return False
        escalated = self.escalated_at is not None or self.escalation_is_due
        return not (escalated and {person.name, "requester"} & set(self.escalate_to or ()))


def _words(person: Principal, *, is_requester: bool) -> set[str]:
    """What a policy may call this person."""
    return {person.name, person.role, *(["requester"] if is_requester else [])}
