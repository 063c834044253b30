"""What a signed link leads to at this moment, judged so that nobody learns more than it is theirs to know (B7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.people import Principal
from butler.redact import Redactor
from service.notify import queue
from service.notify.links import Link, find
from service.notify.messages import moment, seen


@dataclass(frozen=True)
class View:
    """What a link leads to at this moment: a question that is open, or a closed door and why."""

    status: int
    title: str
    lines: tuple[str, ...]
    link: Link | None = None
    person: Principal | None = None
    action: Action | None = None

    @property
    def is_open(self) -> bool:
        """Whether the decision can be taken here."""
        return self.status == 200


UNKNOWN = View(404, "This link is not valid", ("It may have been cut off on its way, or its key was replaced.",))
GONE = View(403, "This link is not valid any more", ("The person it was made for may not decide here any more.",))


def view_of(connection: Connection, link_id: str, redactor: Redactor) -> View:
    """Read link, person and action, and judge them: first whether this person may hear anything of the action."""
    link = find(connection, link_id)
    if link is None:
        return UNKNOWN
    person = queue.person(connection, link.user_id)
    action = ledger.get(connection, link.action_id)
    if person is None or action is None or not action.may_be_decided_by(person):
        return GONE
    view = partial(View, link=link, person=person, action=action)
    if link.used_at is not None:
        return view(410, "This link has been used", ("It works once.", *recorded(action, redactor)))
    if action.status != "pending":
        status = 410 if action.status == "expired" else 409
        return view(status, "This is decided already", recorded(action, redactor))
    if action.has_expired:
        return view(410, "This request has expired", ("Nobody answered in time, so nothing runs.",))
    if any(one["user_id"] == person.user_id for one in action.approved_by or ()):
        return view(409, "You have approved this already", recorded(action, redactor))
    # Asked anew, after a crash for one, it is another question although the call is the same.
    if link.fingerprint != action.shown_fingerprint or link.created_at < action.requested_at:
        return view(409, "The action has changed", ("It is not what this link was made for.", _elsewhere(action)))
    if link.has_expired:
        return view(410, "This link has expired", ("The action still waits.", _elsewhere(action)))
    return view(200, "Approve this action?", (f"You decide as {person.name}.",))


def recorded(action: Action, redactor: Redactor) -> tuple[str, ...]:
    """What is written down about the decision, in sentences."""
    if action.status == "pending":
        names = ", ".join(str(one["by"]) for one in action.approved_by or ())
        return (f"{action.approvals_needed} people have to approve. So far: {names or 'nobody'}.",)
    if action.status == "expired":
        return ("Nobody answered in time, so it expired and nothing was run.",)
    decision = action.decision
    if decision is None:
        return (f"It was {action.status}; nothing was run.",)
    words = {"approve": "approved", "edit": "changed and approved", "respond": "answered", "reject": "rejected"}
    line = f"{decision['by']} {words[decision['decision']]} it, {moment(decision['at'])}, by way of {decision['via']}."
    return (line, *([f"Reason: {seen(redactor.text(decision['reason']))}"] if decision.get("reason") else []))


def _elsewhere(action: Action) -> str:
    return f"In a chat with Butler you can write /approve {action.code} or /deny {action.code} REASON."
