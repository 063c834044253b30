"""Standing permissions given with an approval: scope, argument globs, expiry, uses (http-api, *Resume*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, insert, or_, select, update

from butler.approvals.actions import Action
from butler.approvals.policy import args_match
from butler.clock import stamp, stamp_in
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import Principal
from butler.storage import audit
from butler.storage.tables import grants
from butler.types import Json

Scope = Literal["thread", "user", "everyone"]


@dataclass(frozen=True)
class GrantWish:
    """What a decider asks for beside an approve: later calls like this one need no question."""

    scope: Scope
    args: dict[str, str]
    expires_in: float | None = None
    uses: int | None = None


@dataclass(frozen=True)
class Grant:
    """A stored grant; `scope_id` is the thread's or the user's id, None for everyone."""

    grant_id: str
    tool: str
    tool_digest: str
    scope: Scope
    scope_id: str | None
    args: dict[str, str]
    granted_by: str
    granted_at: str
    expires_at: str | None
    uses_left: int | None
    revoked_at: str | None
    action_id: str | None = None

    @classmethod
    def of_row(cls, row: Row[Any]) -> Grant:
        """Read a row of ``SELECT grants.*``."""
        return cls(**row._mapping)

    def public(self) -> Json:
        """The grant as clients see it (http-api, *Small print*)."""
        return {
            "grant_id": self.grant_id, "tool": self.tool, "scope": self.scope, "scope_id": self.scope_id,
            "args": self.args, "expires_at": self.expires_at, "uses_left": self.uses_left, "by": self.granted_by,
            "granted_at": self.granted_at,
        }  # fmt: skip


def _live(moment: Any) -> ColumnElement[bool]:
    return and_(
        or_(grants.c.expires_at.is_(None), grants.c.expires_at > moment),
        or_(grants.c.uses_left.is_(None), grants.c.uses_left > 0),
    )


# Built once: it is asked for every proposed call.
COVERING = (
    select(grants)
    .where(
        grants.c.tool == bindparam("tool_is"),
        grants.c.tool_digest == bindparam("digest"),
        grants.c.revoked_at.is_(None),
        _live(bindparam("moment")),
        or_(
            grants.c.scope == "everyone",
            and_(grants.c.scope == "thread", grants.c.scope_id == bindparam("thread")),
            and_(grants.c.scope == "user", grants.c.scope_id == bindparam("user")),
        ),
    )
    .order_by(grants.c.granted_at, grants.c.grant_id)
)


def create(connection: Connection, action: Action, person: Principal, wish: GrantWish, via: str) -> Grant:
    """Store a grant for the tool of `action`. Raises ButlerError ``forbidden`` for everyone without being admin."""
    if wish.scope == "everyone" and not person.is_admin:
        raise ButlerError("forbidden", "Only an admin may give a grant for everyone; choose scope thread or user.")
    scope_id = {"thread": action.thread_id, "user": action.requester_id, "everyone": None}[wish.scope]
    row = connection.execute(
        insert(grants)
        .values(
            grant_id=new_id(), tool=action.tool, tool_digest=action.tool_digest, scope=wish.scope, scope_id=scope_id,
            args=wish.args, granted_by=person.name, granted_at=stamp(), uses_left=wish.uses,
            expires_at=stamp_in(wish.expires_in) if wish.expires_in is not None else None,
        )
        .returning(grants)
    ).one()  # fmt: skip
    grant = Grant.of_row(row)
    audit.record(connection, "granted", actor=person.name, via=via, thread_id=action.thread_id, run_id=action.run_id,
                 action_id=action.action_id, grant=grant.public())  # fmt: skip
    return grant


def covering(
    connection: Connection, tool: str, digest: str, args: Json, *, thread_id: str, user_id: str
) -> Grant | None:
    """The first live grant that covers this call; a changed tool definition voids its grants (E3)."""
    call = {"tool_is": tool, "digest": digest, "thread": thread_id, "user": user_id, "moment": stamp()}
    rows = connection.execute(COVERING, call)
    return next((grant for grant in map(Grant.of_row, rows) if args_match(grant.args, args)), None)


def use(connection: Connection, grant_id: str) -> bool:
    """Spend one use; False when it was revoked, expired or used up in the meantime."""
    spent = connection.execute(
        update(grants)
        .where(grants.c.grant_id == grant_id, grants.c.revoked_at.is_(None), _live(stamp()))
        .values(uses_left=grants.c.uses_left - 1)
    )
    return spent.rowcount == 1


def still_stands(connection: Connection, grant_id: str) -> bool:
    """Whether a grant that allowed an action earlier has been revoked or has expired since."""
    row = connection.execute(
        select(grants.c.grant_id).where(
            grants.c.grant_id == grant_id,
            grants.c.revoked_at.is_(None),
            or_(grants.c.expires_at.is_(None), grants.c.expires_at > stamp()),
        )
    ).first()
    return row is not None


def visible_to(connection: Connection, person: Principal) -> list[Grant]:
    """Live grants: all for an admin, for a member those it gave or that are for it alone."""
    query = select(grants).where(grants.c.revoked_at.is_(None), _live(stamp())).order_by(grants.c.granted_at)
    if not person.is_admin:
        query = query.where(or_(grants.c.granted_by == person.name, grants.c.scope_id == person.user_id))
    return [Grant.of_row(row) for row in connection.execute(query)]


def revoke(connection: Connection, grant_id: str, person: Principal, via: str) -> None:
    """End a grant now. Raises ButlerError ``not_found`` when there is no such live grant for this person."""
    if grant_id not in {grant.grant_id for grant in visible_to(connection, person)}:
        raise ButlerError("not_found", f"There is no live grant {grant_id!r}.")
    connection.execute(
        update(grants).where(grants.c.grant_id == grant_id, grants.c.revoked_at.is_(None)).values(revoked_at=stamp())
    )
    audit.record(connection, "revoked", actor=person.name, via=via, grant_id=grant_id)
