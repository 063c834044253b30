"""Users: added, given another role, disabled and enabled; the last admin stays one (F2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import HOUSE, RESERVED_NAMES, ROLES, Actor, Principal, Role
from butler.storage import audit
from butler.storage.tables import tokens, users
from butler.storage.tokens import FIRST, hash_token, new_token, store_token
from butler.types import Json

log = structlog.get_logger("butler.users")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OWNER = "owner"
# Built once: it is asked for whatever starts without a person's yes.
SHUT_OUT = select(users.c.user_id).where(
    users.c.user_id == bindparam("wanted"), or_(users.c.disabled_at.is_not(None), users.c.role == "agent")
)


@dataclass(frozen=True)
class Account:
    """A user as lists show it."""

    person: Principal
    created_at: str
    disabled_at: str | None

    def public(self) -> Json:
        """The account as clients see it."""
        return {
            "user_id": self.person.user_id, "name": self.person.name, "role": self.person.role,
            "created_at": self.created_at, "disabled": self.disabled_at is not None,
        }  # fmt: skip


def add_user(connection: Connection, name: str, role: str, by: Actor) -> tuple[Principal, str]:
    """Create a user and its first token.

    Returns: the user, and the token in clear, which is stored nowhere.
    Raises: ButlerError ``invalid_request`` for an unusable or taken name or an unknown role.
    """
    person = add_account(connection, name, role, by)
    token = new_token()
    store_token(connection, person.user_id, token)
    return person, token


def add_account(connection: Connection, name: str, role: str, by: Actor) -> Principal:
    """Create a user who has no token yet. Raises as `add_user`."""
    known = checked_role(role)
    check_name(connection, name)
    return _insert(connection, name, known, by)


def check_name(connection: Connection, name: str) -> None:
    """Raises ButlerError ``invalid_request`` for a name that can't be used or is taken."""
    if not NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
        raise ButlerError(
            "invalid_request",
            f"The name {name!r} can't be used: 1 to 64 letters, digits, dots, dashes or underscores, "
            f"and none of the words {', '.join(sorted(RESERVED_NAMES))}.",
        )
    alike = connection.execute(select(users.c.name).where(func.lower(users.c.name) == name.lower())).scalar()
    if alike is not None:
        raise ButlerError("invalid_request", f"There is a user {alike!r} already; names differ by more than case.")


def checked_role(role: str) -> Role:
    """A role that exists. Raises ButlerError ``invalid_request``."""
    if role not in ROLES:
        raise ButlerError("invalid_request", f"Role {role!r} does not exist; use one of {', '.join(ROLES)}.")
    return next(known for known in ROLES if known == role)


def ensure_owner(connection: Connection, token: str) -> Principal:
    """Make sure that the owner exists and that `token` is its one first token; tokens with a label stay."""
    owner = find_user(connection, OWNER) or _insert(connection, OWNER, "admin", HOUSE)
    digest = hash_token(token)
    current = connection.execute(
        select(tokens.c.user_id, tokens.c.label).where(tokens.c.token_hash == digest, tokens.c.revoked_at.is_(None))
    ).first()
    if current is not None and current.user_id != owner.user_id:
        raise ButlerError("invalid_request", "BUTLER_OWNER_TOKEN is the token of another user; choose another one.")
    replaced = connection.execute(
        update(tokens)
        .where(
            tokens.c.user_id == owner.user_id, tokens.c.label == FIRST, tokens.c.token_hash != digest,
            tokens.c.revoked_at.is_(None),
        )
        .values(revoked_at=stamp())
        .returning(tokens.c.token_id)
    ).scalars().all()  # fmt: skip
    if current is None or current.label != FIRST:
        ended = connection.execute(select(tokens.c.token_id).where(tokens.c.token_hash == digest)).first()
        if ended is not None and current is None:
            log.warning("ended_owner_token_works_again", hint="change BUTLER_OWNER_TOKEN: its token had been ended")
        connection.execute(delete(tokens).where(tokens.c.token_hash == digest))
        kept = store_token(connection, owner.user_id, token)
        audit.record(
            connection, "token_rotated" if replaced else "token_created", actor=HOUSE.name, via=HOUSE.via,
            user=owner.name, token_id=kept.token_id, replaced=list(replaced),
        )  # fmt: skip
    return owner


def find_user(connection: Connection, name: str) -> Principal | None:
    """The user of that name, if there is one."""
    row = connection.execute(select(users.c.user_id, users.c.name, users.c.role).where(users.c.name == name)).first()
    return Principal(row.user_id, row.name, row.role) if row else None


def get_user(connection: Connection, user_id: str) -> Principal | None:
    """The user with that id, if there is one."""
    row = connection.execute(
        select(users.c.user_id, users.c.name, users.c.role).where(users.c.user_id == user_id)
    ).first()
    return Principal(row.user_id, row.name, row.role) if row else None


def is_shut_out(connection: Connection, user_id: str) -> bool:
    """Whether a user may not chat: disabled, or an agent by now."""
    return connection.execute(SHUT_OUT, {"wanted": user_id}).first() is not None


def the_user(connection: Connection, name: str) -> Principal:
    """The user of that name. Raises ButlerError ``not_found``."""
    person = find_user(connection, name)
    if person is None:
        raise ButlerError("not_found", f"There is no user {name!r}.")
    return person


def list_accounts(connection: Connection) -> list[Account]:
    """All users by name."""
    return [_account(row) for row in connection.execute(select(users).order_by(users.c.name))]


def get_account(connection: Connection, name: str) -> Account:
    """The account of that name. Raises ButlerError ``not_found``."""
    row = connection.execute(select(users).where(users.c.name == name)).first()
    if row is None:
        raise ButlerError("not_found", f"There is no user {name!r}.")
    return _account(row)


def active_people(connection: Connection) -> list[Principal]:
    """Everybody who could decide something now: neither disabled nor an agent."""
    rows = connection.execute(
        select(users.c.user_id, users.c.name, users.c.role)
        .where(users.c.disabled_at.is_(None), users.c.role != "agent")
        .order_by(users.c.name)
    )
    return [Principal(row.user_id, row.name, row.role) for row in rows]


def set_role(connection: Connection, name: str, role: str, by: Actor) -> None:
    """Give a user another role, from its next request on. Raises ButlerError ``not_found``, ``invalid_request``."""
    known, account = checked_role(role), get_account(connection, name)
    if account.person.role == known:
        return
    _refuse_last_admin(connection, account)
    connection.execute(update(users).where(users.c.user_id == account.person.user_id).values(role=known))
    audit.record(
        connection, "role_changed", actor=by.name, via=by.via, user=name, role=known, before=account.person.role
    )


def set_disabled(connection: Connection, name: str, disabled: bool, by: Actor) -> None:
    """Shut a user out, or let it in again; its threads, grants and tokens stay. Raises as `set_role`."""
    account = get_account(connection, name)
    if (account.disabled_at is not None) == disabled:
        return
    if disabled:
        _refuse_last_admin(connection, account)
    when = stamp() if disabled else None
    connection.execute(update(users).where(users.c.user_id == account.person.user_id).values(disabled_at=when))
    event: audit.AuditEvent = "user_disabled" if disabled else "user_enabled"
    audit.record(connection, event, actor=by.name, via=by.via, user=name)


def _refuse_last_admin(connection: Connection, account: Account) -> None:
    if not account.person.is_admin or account.disabled_at is not None:
        return
    others = connection.execute(
        select(func.count())
        .select_from(users)
        .where(users.c.role == "admin", users.c.disabled_at.is_(None), users.c.user_id != account.person.user_id)
    ).scalar_one()
    if not others:
        raise ButlerError(
            "invalid_request", f"{account.person.name} is the only admin who can sign in; make another one first."
        )


def _insert(connection: Connection, name: str, role: Role, by: Actor) -> Principal:
    person = Principal(new_id(), name, role)
    try:
        connection.execute(insert(users).values(user_id=person.user_id, name=name, role=role, created_at=stamp()))
    except IntegrityError:
        raise ButlerError("invalid_request", f"There is a user {name!r} already.") from None
    audit.record(connection, "user_added", actor=by.name, via=by.via, user=name, role=role)
    return person


def _account(row: Row[Any]) -> Account:
    return Account(Principal(row.user_id, row.name, row.role), row.created_at, row.disabled_at)
