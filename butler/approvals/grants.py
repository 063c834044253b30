"""Standing permissions given with an approval: scope, argument globs, expiry, uses (http-api, *Resume*)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, exists, insert, or_, select, update

from butler.approvals.actions import Action
from butler.approvals.policy import args_match
from butler.argtext import text_of
from butler.canonical import canonical_json, fingerprint
from butler.clock import stamp, stamp_in
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import HOUSE, Principal
from butler.storage import audit
from butler.storage.tables import grants, threads, users
from butler.tools.registry import ToolRegistry
from butler.types import Json, ToolSpec

Scope = Literal["thread", "user", "everyone"]
State = Literal["live", "expired", "used_up", "revoked", "void"]
Patterns = dict[str, Any]
"""By argument: a glob, a list of globs for an argument list, or ``{"exactly": value}``, which also fixes the type."""

EXACTLY = "exactly"

_UPWARDS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")


@dataclass(frozen=True)
class GrantWish:
    """What a decider asks for beside an approve: later calls like this one need no question.

    `args` None means exactly the arguments of the call at hand. `closed`: arguments without a pattern must be absent.
    """

    scope: Scope
    args: Patterns | None
    expires_in: float | None = None
    uses: int | None = None
    confirm: bool = False
    closed: bool | None = None


@dataclass(frozen=True)
class Terms:
    """A checked wish. `wide`: hardly limited; `needs` is what is still missing for it; `note` a warning."""

    scope: Scope
    args: Patterns
    closed: bool
    expires_in: float | None
    uses: int | None
    wide: bool
    needs: tuple[Literal["admin", "confirm"], ...]
    note: str | None
    tool_digest: str


@dataclass(frozen=True)
class Grant:
    """A stored grant; `scope_id` is the thread's or the user's id, None for everyone."""

    grant_id: str
    tool: str
    tool_digest: str
    scope: Scope
    scope_id: str | None
    args: Patterns
    granted_by: str
    granted_at: str
    expires_at: str | None
    uses_left: int | None
    revoked_at: str | None
    action_id: str | None = None
    closed: bool = False
    revoked_by: str | None = None
    scope_name: str | None = None
    """The name of the user that it is for; not stored."""

    @classmethod
    def of_row(cls, row: Row[Any]) -> Grant:
        """Read a row of ``SELECT grants.*``, perhaps with the name."""
        return cls(**row._mapping)

    def state(self, tools: ToolRegistry | None = None) -> State:
        """Whether it counts now, and if not, why: what ended it first."""
        if self.uses_left is not None and self.uses_left <= 0:
            return "used_up"
        if self.revoked_at is not None:
            return "void" if self.revoked_by == HOUSE.name else "revoked"
        if self.expires_at is not None and self.expires_at <= stamp():
            return "expired"
        spec = tools.get(self.tool) if tools is not None else None
        return "void" if tools is not None and (spec is None or bound_to(spec) != self.tool_digest) else "live"

    def public(self, tools: ToolRegistry | None = None) -> Json:
        """The grant as clients see it (http-api, *Small print*)."""
        return {
            "grant_id": self.grant_id, "tool": self.tool, "scope": self.scope, "scope_id": self.scope_id,
            "scope_name": self.scope_name, "args": self.args, "closed": self.closed, "expires_at": self.expires_at,
            "uses_left": self.uses_left, "by": self.granted_by, "granted_at": self.granted_at,
            "action_id": self.action_id, "revoked_at": self.revoked_at, "revoked_by": self.revoked_by,
            "state": self.state(tools),
        }  # fmt: skip


def bound_to(spec: ToolSpec) -> str:
    """What a grant holds for: the tool as it is defined, its own verdict included, since a grant overrides that."""
    return fingerprint(spec.name, {"definition": spec.digest, "verdict": spec.verdict})


def args_covered(patterns: Patterns, closed: bool, args: Json) -> bool:
    """Whether a call's arguments are such as the person saw: all patterns match and nothing leads out of a folder."""
    if closed and not args.keys() <= patterns.keys():
        return False
    globs = {name: pattern for name, pattern in patterns.items() if not isinstance(pattern, dict)}
    fixed = patterns.keys() - globs.keys()
    if any(name not in args or canonical_json(args[name]) != canonical_json(patterns[name][EXACTLY]) for name in fixed):
        return False
    return args_match(globs, args) and not any(
        _leads_upwards(args[name]) and not _leads_upwards(pattern) for name, pattern in globs.items()
    )


def _leads_upwards(value: Any) -> bool:
    """Whether a path in it climbs: ``docs/*`` is not meant for ``docs/../secrets``."""
    texts = value if isinstance(value, list) else [value]
    return any(_UPWARDS.search(text_of(text)) is not None for text in texts)


def _live(moment: Any) -> ColumnElement[bool]:
    return and_(
        grants.c.revoked_at.is_(None),
        or_(grants.c.expires_at.is_(None), grants.c.expires_at > moment),
        or_(grants.c.uses_left.is_(None), grants.c.uses_left > 0),
    )


# A grant counts where no rule speaks and an admin would be asked: it must not give away what its giver never had.
_GIVEN_BY_AN_ADMIN = exists().where(
    users.c.name == grants.c.granted_by, users.c.role == "admin", users.c.disabled_at.is_(None)
)

# Built once: it is asked for every proposed call.
COVERING = (
    select(grants)
    .where(
        grants.c.tool == bindparam("tool_is"),
        grants.c.tool_digest == bindparam("digest"),
        _live(bindparam("moment")),
        or_(
            grants.c.scope == "everyone",
            and_(grants.c.scope == "thread", grants.c.scope_id == bindparam("thread")),
            and_(grants.c.scope == "user", grants.c.scope_id == bindparam("user")),
        ),
        _GIVEN_BY_AN_ADMIN,
    )
    .order_by(grants.c.granted_at, grants.c.grant_id)
)


_NAMED = select(grants, users.c.name.label("scope_name")).outerjoin(users, users.c.user_id == grants.c.scope_id)


def draft(action: Action, person: Principal, terms: Terms) -> Grant:
    """The grant that `terms` come to, not stored."""
    return Grant(
        grant_id=new_id(), tool=action.tool, tool_digest=terms.tool_digest, scope=terms.scope,
        scope_id={"thread": action.thread_id, "user": action.requester_id, "everyone": None}[terms.scope],
        args=terms.args, granted_by=person.name, granted_at=stamp(), uses_left=terms.uses, revoked_at=None,
        expires_at=stamp_in(terms.expires_in) if terms.expires_in is not None else None,
        action_id=action.action_id, closed=terms.closed,
        scope_name=action.requested_by if terms.scope == "user" else None,
    )  # fmt: skip


def create(connection: Connection, action: Action, person: Principal, terms: Terms, via: str) -> Grant:
    """Store a grant for the tool of `action` on checked terms."""
    grant = draft(action, person, terms)
    connection.execute(insert(grants).values({name: value for name, value in vars(grant).items() if name in grants.c}))
    audit.record(connection, "granted", actor=person.name, via=via, thread_id=action.thread_id, run_id=action.run_id,
                 action_id=action.action_id, grant=grant.public(), wide=terms.wide)  # fmt: skip
    return grant


def given_with(connection: Connection, action_id: str) -> Grant | None:
    """The latest grant that was given beside the approval of an action."""
    row = connection.execute(
        _NAMED.where(grants.c.action_id == action_id).order_by(grants.c.granted_at.desc()).limit(1)
    ).first()
    return Grant.of_row(row) if row else None


def covering(
    connection: Connection, tool: str, digest: str, args: Json, *, thread_id: str, user_id: str
) -> Grant | None:
    """The first live grant that covers this call; a changed tool definition voids its grants (E3)."""
    call = {"tool_is": tool, "digest": digest, "thread": thread_id, "user": user_id, "moment": stamp()}
    rows = connection.execute(COVERING, call)
    return next((grant for grant in map(Grant.of_row, rows) if args_covered(grant.args, grant.closed, args)), None)


def use(connection: Connection, grant_id: str) -> bool:
    """Spend one use; False when it was revoked, expired or used up in the meantime."""
    spent = connection.execute(
        update(grants)
        .where(grants.c.grant_id == grant_id, _live(stamp()))
        .values(uses_left=grants.c.uses_left - 1)
    )  # fmt: skip
    return spent.rowcount == 1


def still_stands(connection: Connection, grant_id: str, digest: str) -> bool:
    """Whether a grant that allowed an action earlier has not been revoked, voided or expired since."""
    row = connection.execute(
        select(grants.c.grant_id).where(
            grants.c.grant_id == grant_id,
            grants.c.tool_digest == digest,
            grants.c.revoked_at.is_(None),
            or_(grants.c.expires_at.is_(None), grants.c.expires_at > stamp()),
            _GIVEN_BY_AN_ADMIN,
        )
    ).first()
    return row is not None


def is_narrow(connection: Connection, grant_id: str, argument: str) -> bool:
    """Whether a grant says which values of an argument it is for, so that not any value will do."""
    row = connection.execute(select(grants).where(grants.c.grant_id == grant_id)).first()
    return row is not None and bool(set(text_of(Grant.of_row(row).args.get(argument, "*"))) - {"*"})


def visible_to(
    connection: Connection, person: Principal, tools: ToolRegistry | None = None, *, everything: bool = False
) -> list[Grant]:
    """Live grants, or all that ever were: every one for an admin, for a member those it gave or that are for it.

    Those for one of its threads are for it too.
    """
    query = _NAMED.order_by(grants.c.granted_at, grants.c.grant_id)
    if not everything:
        query = query.where(_live(stamp()))
    if not person.is_admin:
        mine = select(threads.c.thread_id).where(threads.c.owner_id == person.user_id)
        for_it = or_(grants.c.scope_id == person.user_id, grants.c.scope_id.in_(mine))
        query = query.where(or_(grants.c.granted_by == person.name, for_it))
    found = [Grant.of_row(row) for row in connection.execute(query)]
    return [grant for grant in found if everything or grant.state(tools) == "live"]


def revoke(connection: Connection, grant_id: str, person: Principal, via: str) -> None:
    """End a grant now. Raises ButlerError ``not_found`` when there is no such live grant for this person."""
    if grant_id not in {grant.grant_id for grant in visible_to(connection, person)}:
        raise ButlerError("not_found", f"There is no live grant {grant_id!r}.")
    _end(connection, grant_id, person.name)
    audit.record(connection, "revoked", actor=person.name, via=via, grant_id=grant_id)


def end_with_thread(connection: Connection, thread_id: str, person: Principal, via: str) -> None:
    """End the live grants for a thread that this person deletes."""
    of_thread = select(grants.c.grant_id).where(grants.c.scope == "thread", grants.c.scope_id == thread_id)
    for grant_id in connection.scalars(of_thread.where(_live(stamp()))).all():
        _end(connection, grant_id, person.name)
        audit.record(connection, "revoked", actor=person.name, via=via, thread_id=thread_id, grant_id=grant_id,
                     why="the thread was deleted")  # fmt: skip


def exists_live(connection: Connection, grant_id: str) -> bool:
    """Whether there is such a live grant, whoever may know of it."""
    query = select(grants.c.grant_id).where(grants.c.grant_id == grant_id, _live(stamp()))
    return connection.execute(query).first() is not None


def changed(connection: Connection, tools: ToolRegistry) -> Sequence[Grant]:
    """Live grants whose tool has another definition now; a tool that is only missing may come back as it was."""
    rows = connection.execute(select(grants).where(_live(stamp())))
    found = [Grant.of_row(row) for row in rows]
    return [grant for grant in found if grant.state(tools) == "void" and tools.get(grant.tool) is not None]


def void(connection: Connection, tools: ToolRegistry) -> None:
    """End for good what a changed definition voided: changing it back must not bring them back (E3)."""
    for grant in changed(connection, tools):
        _end(connection, grant.grant_id, HOUSE.name)
        audit.record(
            connection, "revoked", actor=HOUSE.name, via=HOUSE.via, grant_id=grant.grant_id, tool=grant.tool,
            why="the definition of the tool has changed",
        )  # fmt: skip


def _end(connection: Connection, grant_id: str, by: str) -> None:
    connection.execute(
        update(grants)
        .where(grants.c.grant_id == grant_id, grants.c.revoked_at.is_(None))
        .values(revoked_at=stamp(), revoked_by=by)
    )
