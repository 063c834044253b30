"""A simple model of one action's life, to hold the ledger against: what may follow what, and who may decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from butler.approvals.actions import DecisionKind
from butler.canonical import fingerprint
from butler.people import Principal
from butler.types import Ruling

EDITED = fingerprint("act", {"text": "edited"})
State = Literal["ready", "asking", "going", "over"]

# Which events may follow which state: the whole life of an action. `started` needs `ready`, and uses it up.
LIFE: dict[State | None, dict[str, State]] = {
    None: {"allowed": "ready", "requested": "asking", "refused": "over"},
    "ready": {"started": "going", "requested": "asking", "refused": "over", "cancelled": "over"},
    "asking": {
        "approved": "ready", "edited": "ready", "responded": "over", "rejected": "over", "expired": "over",
        "changes_requested": "over", "cancelled": "over", "approved_in_part": "asking", "escalated": "asking",
    },
    "going": {"done": "over", "failed": "over", "unknown": "asking", "repeated": "ready", "cancelled": "over"},
    "over": {},
}  # fmt: skip

STATUS_AFTER = {
    "allowed": "allowed", "requested": "pending", "refused": "refused", "approved": "approved", "edited": "approved",
    "responded": "approved", "rejected": "rejected", "changes_requested": "rejected", "expired": "expired",
    "cancelled": "cancelled", "unknown": "pending",
}  # fmt: skip
EXECUTION_AFTER = {
    "started": "started", "done": "done", "failed": "failed", "unknown": "unknown", "repeated": "none",
    "responded": "done", "approved": "none",
}  # fmt: skip


@dataclass
class Shadow:
    """What the model believes about one action."""

    action_id: str
    run_id: str
    requester: Principal
    fingerprint: str
    deciders: tuple[str, ...] | None
    expires: datetime | None
    status: str = ""
    execution: str = "none"
    attempts: int = 0
    decided: bool = False
    edited: bool = False
    needed: int = 1
    given: list[str] = field(default_factory=list)
    escalate: datetime | None = None
    escalate_to: tuple[str, ...] = ()
    escalated: bool = False
    events: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """The fingerprint of what a decider sees: of an edit that is asked about again, its arguments (A7)."""
        return EDITED if self.edited and self.status == "pending" else self.fingerprint

    @property
    def state(self) -> State | None:
        state: State | None = None
        for event in self.events:
            state = LIFE[state][event]
        return state

    def happen(self, event: str) -> None:
        self.events.append(event)
        assert self.state is not None
        self.status = STATUS_AFTER.get(event, self.status)
        self.execution = EXECUTION_AFTER.get(event, self.execution)
        self.attempts += event == "started"

    def hold(self) -> None:
        status = self.status
        self.happen("refused")
        self.status, self.execution = status, "failed"

    def ask(self, given: Ruling, moment: datetime) -> None:
        """What a ruling says about who answers, how many, and until when."""
        self.deciders, self.needed, self.given = given.deciders, given.approvals_needed, []
        self.expires = moment + timedelta(seconds=given.expires_in) if given.expires_in else None
        self.escalate = moment + timedelta(seconds=given.escalate_after) if given.escalate_after else None
        self.escalate_to, self.escalated = given.escalate_to, False

    def is_due_to_escalate(self, moment: datetime) -> bool:
        late = self.expires is not None and self.expires <= moment
        due = self.escalate is not None and self.escalate <= moment and not self.escalated
        return due and self.status == "pending" and not late

    def may_be_decided_by(self, person: Principal, moment: datetime) -> bool:
        if person.role == "agent":
            return False
        is_requester = person == self.requester
        words = {person.name, person.role, *(["requester"] if is_requester else [])}
        due = self.status == "pending" and self.escalate is not None and self.escalate <= moment
        further = set(self.escalate_to) if self.escalated or due else set()
        if is_requester and self.deciders and not words & set(self.deciders):
            return bool({"requester", person.name} & further)
        return person.is_admin or bool(words & (set(self.deciders or ["admin"]) | further))

    def allows(self, kind: DecisionKind) -> bool:
        if self.execution == "unknown":
            return kind != "edit"
        return kind in ("approve", "reject") or self.needed == 1
