"""Whether people may decide a call under another ruling than the one under which it was asked (A7, B6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from butler.approvals.actions import Action
from butler.people import Principal
from butler.storage.tables import users
from butler.types import Ruling

# Built once: it is asked whenever an approved call that a rule still asks about is about to run.
WHO_MAY_SIGN_IN = select(users.c.user_id, users.c.name, users.c.role).where(
    users.c.name.in_(bindparam("names", expanding=True)), users.c.disabled_at.is_(None)
)


def under(action: Action, ruling: Ruling, moment: str) -> Action:
    """The action as if it had been asked under `ruling`, at a moment after that; the row itself stays as it is."""
    waited = datetime.fromisoformat(moment) - datetime.fromisoformat(action.requested_at)
    escalated = ruling.escalate_after is not None and waited.total_seconds() >= ruling.escalate_after
    return replace(
        action, deciders=list(ruling.deciders) if ruling.deciders is not None else None,
        approvals_needed=ruling.approvals_needed, escalate_at=None, escalate_to=list(ruling.escalate_to),
        escalated_at=action.requested_at if escalated else None,
    )  # fmt: skip


def still_able(connection: Connection, action: Action, names: Sequence[str]) -> set[str]:
    """Those of the named who may decide the action as things stand; who was disabled since is none of them."""
    rows = connection.execute(WHO_MAY_SIGN_IN, {"names": list(names)})
    return {row.name for row in rows if action.may_be_decided_by(Principal(row.user_id, row.name, row.role))}


def falls_short(connection: Connection, action: Action, ruling: Ruling) -> bool:
    """Whether an approved action would not be approved under `ruling` by those who decided it."""
    decision = action.decision or {}
    # An edit or an approve that one person was enough for names no others.
    names = {one["by"] for one in action.approved_by or ()} | ({decision["by"]} if "by" in decision else set())
    at = decision.get("at") or action.requested_at
    able = still_able(connection, under(action, ruling, at), sorted(names))
    return len(able) < ruling.approvals_needed
