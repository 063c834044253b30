"""Users and their tokens; only hashes of tokens are stored (F2)."""

from __future__ import annotations

import hashlib
import re
import secrets

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import RESERVED_NAMES, ROLES, Principal, Role
from butler.storage.tables import tokens, users

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OWNER = "owner"


def hash_token(token: str) -> str:
    """The stored form of a token; tokens are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    """A fresh bearer token of 256 random bits."""
    return secrets.token_urlsafe(32)


def add_user(connection: Connection, name: str, role: str) -> tuple[Principal, str]:
    """Create a user and its first token.

    Returns: the user, and the token in clear, which is stored nowhere.
    Raises: ButlerError ``invalid_request`` for an unusable or taken name or an unknown role.
    """
    if role not in ROLES:
        raise ButlerError("invalid_request", f"Role {role!r} does not exist; use one of {', '.join(ROLES)}.")
    if not NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
        raise ButlerError(
            "invalid_request",
            f"The name {name!r} can't be used: 1 to 64 letters, digits, dots, dashes or underscores, "
            f"and none of the words {', '.join(sorted(RESERVED_NAMES))}.",
        )
    known: Role = next(known for known in ROLES if known == role)
    person = Principal(new_id(), name, known)
    try:
        connection.execute(insert(users).values(user_id=person.user_id, name=name, role=role, created_at=stamp()))
    except IntegrityError:
        raise ButlerError("invalid_request", f"There is a user {name!r} already.") from None
    token = new_token()
    _store_token(connection, person.user_id, token)
    return person, token


def ensure_owner(connection: Connection, token: str) -> Principal:
    """Make sure that the owner exists and that `token` is its one valid token."""
    owner = find_user(connection, OWNER)
    if owner is None:
        owner = Principal(new_id(), OWNER, "admin")
        connection.execute(insert(users).values(user_id=owner.user_id, name=OWNER, role="admin", created_at=stamp()))
    digest = hash_token(token)
    current = connection.execute(
        select(tokens.c.user_id).where(tokens.c.token_hash == digest, tokens.c.revoked_at.is_(None))
    ).scalar()
    if current is not None and current != owner.user_id:
        raise ButlerError("invalid_request", "BUTLER_OWNER_TOKEN is the token of another user; choose another one.")
    connection.execute(
        update(tokens)
        .where(tokens.c.user_id == owner.user_id, tokens.c.token_hash != digest, tokens.c.revoked_at.is_(None))
        .values(revoked_at=stamp())
    )
    if current is None:
        connection.execute(tokens.delete().where(tokens.c.token_hash == digest))
        _store_token(connection, owner.user_id, token)
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


def list_users(connection: Connection) -> list[Principal]:
    """All users by name."""
    rows = connection.execute(select(users.c.user_id, users.c.name, users.c.role).order_by(users.c.name))
    return [Principal(row.user_id, row.name, row.role) for row in rows]


def user_of_token(connection: Connection, token: str) -> Principal | None:
    """The user whose valid token this is.

    The look-up compares SHA-256 digests, so its timing tells nothing about a stored token.
    """
    row = connection.execute(
        select(users.c.user_id, users.c.name, users.c.role)
        .join(tokens, tokens.c.user_id == users.c.user_id)
        .where(tokens.c.token_hash == hash_token(token), tokens.c.revoked_at.is_(None))
    ).first()
    return Principal(row.user_id, row.name, row.role) if row else None


def _store_token(connection: Connection, user_id: str, token: str) -> None:
    connection.execute(insert(tokens).values(token_hash=hash_token(token), user_id=user_id, created_at=stamp()))
