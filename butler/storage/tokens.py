"""Tokens: several per user, each with a name and maybe an end; only their hashes are stored (F2)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, insert, or_, select, update

from butler.clock import stamp, stamp_in
from butler.errors import ButlerError
from butler.people import Actor, Principal
from butler.storage import audit
from butler.storage.tables import tokens, users
from butler.types import Json

FIRST = ""
"""The label of a user's first token. The owner has one such: the one in ``owner.token``."""
MOST_LABEL_CHARACTERS = 64
MOST_TOKENS = 500


@dataclass(frozen=True)
class Token:
    """What is known of a token: never the token itself."""

    token_id: str
    label: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    @property
    def is_live(self) -> bool:
        """Whether it opens the door, as far as the token goes."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > stamp())

    def public(self) -> Json:
        """The token as lists show it."""
        return {
            "token_id": self.token_id, "label": self.label, "created_at": self.created_at,
            "expires_at": self.expires_at,
        }  # fmt: skip


def hash_token(token: str) -> str:
    """The stored form of a token; tokens are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    """A fresh bearer token of 256 random bits."""
    return secrets.token_urlsafe(32)


def user_of_token(connection: Connection, token: str) -> Principal | None:
    """The user whose valid token this is; None also when the token has ended or its user is disabled.

    Only digests meet: one that finds the row, and one that is compared in constant time.
    """
    digest = hash_token(token)
    row = connection.execute(
        select(users.c.user_id, users.c.name, users.c.role, tokens.c.token_hash)
        .join(tokens, tokens.c.user_id == users.c.user_id)
        .where(tokens.c.token_hash == digest, users.c.disabled_at.is_(None), _live())
    ).first()
    if row is None or not hmac.compare_digest(row.token_hash, digest):
        return None
    return Principal(row.user_id, row.name, row.role)


def live_tokens(connection: Connection, user_id: str) -> list[Token]:
    """The tokens of a user that neither were revoked nor have expired, oldest first."""
    rows = connection.execute(
        select(tokens).where(tokens.c.user_id == user_id, _live()).order_by(tokens.c.created_at, tokens.c.token_id)
    )
    return [_of_row(row) for row in rows]


def find_token(connection: Connection, person: Principal, token_id: str) -> Token:
    """The live token of that user with that id. Raises ButlerError ``not_found``."""
    for token in live_tokens(connection, person.user_id):
        if token.token_id == token_id:
            return token
    raise ButlerError("not_found", "There is no such live token.")


def create_token(
    connection: Connection, person: Principal, by: Actor, *, label: str, expires_in: float | None = None
) -> tuple[Token, str]:
    """Make one more token, which ends after `expires_in` seconds.

    Returns: what is kept of it, and the token in clear, which is stored nowhere.
    Raises: ButlerError ``invalid_request`` for an unusable label or one token too many.
    """
    label = checked_label(label)
    if len(live_tokens(connection, person.user_id)) >= MOST_TOKENS:
        raise ButlerError("invalid_request", f"{person.name} has {MOST_TOKENS} tokens; revoke some first.")
    secret = new_token()
    expires_at = stamp_in(expires_in) if expires_in is not None else None
    kept = store_token(connection, person.user_id, secret, label, expires_at)
    _note(connection, "token_created", person, by, kept)
    return kept, secret


def rotate_tokens(
    connection: Connection, person: Principal, by: Actor, token_id: str | None = None
) -> tuple[Token, str]:
    """Give a new token for one (same label, same lifetime), or for all that the user has."""
    old = [find_token(connection, person, token_id)] if token_id else live_tokens(connection, person.user_id)
    secret = new_token()
    label, expires_at = (old[0].label, _as_long_again(old[0])) if token_id else (FIRST, None)
    kept = store_token(connection, person.user_id, secret, label, expires_at)
    _end(connection, person, [token.token_id for token in old])
    _note(connection, "token_rotated", person, by, kept, replaced=[token.token_id for token in old])
    return kept, secret


def revoke_tokens(connection: Connection, person: Principal, by: Actor, found: list[Token]) -> None:
    """End these tokens of that user."""
    _end(connection, person, [token.token_id for token in found])
    for token in found:
        _note(connection, "token_revoked", person, by, token)


def store_token(
    connection: Connection, user_id: str, secret: str, label: str = FIRST, expires_at: str | None = None
) -> Token:
    """Store the hash of `secret`; says nothing to the audit."""
    taken = set(connection.execute(select(tokens.c.token_id).where(tokens.c.user_id == user_id)).scalars())
    token_id = next(one for one in iter(lambda: secrets.token_hex(4), "") if one not in taken)
    row = connection.execute(
        insert(tokens)
        .values(
            token_hash=hash_token(secret), user_id=user_id, created_at=stamp(), token_id=token_id, label=label,
            expires_at=expires_at,
        )
        .returning(tokens)
    ).one()  # fmt: skip
    return _of_row(row)


def checked_label(label: str) -> str:
    """A label as it is kept. Raises ButlerError ``invalid_request``."""
    label = label.strip()
    if not label or len(label) > MOST_LABEL_CHARACTERS or not label.isprintable():
        raise ButlerError(
            "invalid_request", f"A token's label is 1 to {MOST_LABEL_CHARACTERS} printable characters on one line."
        )
    return label


def _end(connection: Connection, person: Principal, token_ids: list[str]) -> None:
    connection.execute(
        update(tokens)
        .where(tokens.c.user_id == person.user_id, tokens.c.token_id.in_(token_ids), tokens.c.revoked_at.is_(None))
        .values(revoked_at=stamp())
    )


def _as_long_again(token: Token) -> str | None:
    if token.expires_at is None:
        return None
    life = datetime.fromisoformat(token.expires_at) - datetime.fromisoformat(token.created_at)
    return stamp_in(life.total_seconds())


def _live() -> Any:
    return and_(tokens.c.revoked_at.is_(None), or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > stamp()))


def _of_row(row: Row[Any]) -> Token:
    return Token(row.token_id, row.label, row.created_at, row.expires_at, row.revoked_at)


def _note(
    connection: Connection, event: audit.AuditEvent, person: Principal, by: Actor, token: Token, **data: Any
) -> None:
    audit.record(
        connection, event, actor=by.name, via=by.via, user=person.name, token_id=token.token_id, label=token.label,
        expires_at=token.expires_at, **data,
    )  # fmt: skip
