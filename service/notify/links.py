"""Signed links that let one person decide one action once; opening one decides nothing (B7)."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itsdangerous import BadSignature, Signer
from sqlalchemy import Connection, Row, insert, select, update

from butler.approvals.actions import Action
from butler.clock import stamp, stamp_in
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.tables import links

KEY_FILE = "links.key"
KEY_BYTES = 32
LONGEST_LIFE_SECONDS = 7 * 24 * 3600
MOST_TOKEN_CHARACTERS = 200
PATH = "/decide/"


@dataclass(frozen=True)
class Link:
    """One row of ``links``: whose, for which action as it was shown, until when, and whether it was used."""

    link_id: str
    action_id: str
    user_id: str
    fingerprint: str
    created_at: str
    expires_at: str | None
    used_at: str | None

    @classmethod
    def of_row(cls, row: Row[Any]) -> Link:
        """Read a row of ``SELECT links.*``."""
        return cls(**row._mapping)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= stamp()


class SignedLinks:
    """Makes and reads the tokens of links; the database has no token, and the token says nothing but its row.

    Args:
        folder: the data directory; the key is made there at first need. Without it old links are void.
        base: the URL under which people reach the server.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder = folder
        self._base = base.rstrip("/")
        self._key: bytes | None = None

    def url(self, link_id: str) -> str:
        """The address that a message carries."""
        return f"{self._base}{PATH}{self._signer().sign(link_id).decode()}"

    def read(self, token: str) -> str | None:
        """The link's id, if this server signed the token."""
        if len(token) > MOST_TOKEN_CHARACTERS or not self._has_key():
            return None
        try:
            return self._signer().unsign(token).decode()
        except (BadSignature, UnicodeError):
            return None

    def issue(self, connection: Connection, action: Action, person: Principal) -> str:
        """The URL of this person's link for a pending action; a link that is still good is given again.

        Several channels and repeated sending so share one link, and it stays single-use.
        """
        kept = connection.execute(
            select(links.c.link_id).where(
                links.c.action_id == action.action_id,
                links.c.user_id == person.user_id,
                links.c.fingerprint == action.shown_fingerprint,
                # A question that is asked anew has links of its own.
                links.c.created_at >= action.requested_at,
                links.c.used_at.is_(None),
                links.c.expires_at > stamp(),
            )
        ).scalar()
        return self.url(kept or _insert(connection, action, person))

    def _has_key(self) -> bool:
        # Somebody who only asks must not make a key.
        return self._key is not None or (self._folder / KEY_FILE).exists()

    def _signer(self) -> Signer:
        if self._key is None:
            self._key = _read_key(self._folder / KEY_FILE)
        return Signer(self._key, salt="butler-decide", digest_method=hashlib.sha256)


def find(connection: Connection, link_id: str) -> Link | None:
    """The link with that id."""
    row = connection.execute(select(links).where(links.c.link_id == link_id)).first()
    return Link.of_row(row) if row else None


def spend(link_id: str) -> Callable[[Connection], None]:
    """The transaction's part that uses a link up; it belongs to the decision's own, so that both happen or none."""

    def transaction(connection: Connection) -> None:
        used = connection.execute(
            update(links)
            # Two posts at once: the second statement finds no unused row.
            .where(links.c.link_id == link_id, links.c.used_at.is_(None))
            .values(used_at=stamp())
            .returning(links.c.link_id)
        ).scalar()
        if used is None:
            raise ButlerError("expired", "This link has been used already; it works once.")

    return transaction


def _insert(connection: Connection, action: Action, person: Principal) -> str:
    link_id = secrets.token_urlsafe(12)
    latest = stamp_in(LONGEST_LIFE_SECONDS)
    connection.execute(
        insert(links).values(
            link_id=link_id, action_id=action.action_id, user_id=person.user_id, fingerprint=action.shown_fingerprint,
            created_at=stamp(), expires_at=min(latest, action.expires_at or latest),
        )
    )  # fmt: skip
    return link_id


def _read_key(path: Path) -> bytes:
    """The key; made at first need, so that only one process of several can make it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) >= KEY_BYTES:
            return key
        # Half a key, from a process that died while it wrote: nothing was signed with it.
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC, 0o600)
    key = secrets.token_bytes(KEY_BYTES)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key
