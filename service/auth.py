"""Who is calling: bearer tokens, looked up by hash; and the owner's first one (http-api, *Who is calling*)."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from butler.errors import ButlerError
from butler.people import Actor, Principal
from butler.storage import tokens, users
from butler.storage.database import Database
from butler.storage.tokens import FIRST, Token
from service.address import TOKEN_FILE

KNOWN_SECONDS = 1.0
MOST_KNOWN = 1024


class Doorkeeper:
    """Finds the user of a token; what it found holds for a second, so that a busy client costs one look-up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows whenever users or tokens were changed in this process."""
        return self._changes

    async def who(self, token: str) -> Principal:
        """The user of that token. Raises ButlerError ``unauthorized``."""
        digest = tokens.hash_token(token)
        until, known = self._known.get(digest, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        changes = self._changes
        person = await self._database.read(partial(tokens.user_of_token, token=token))
        if person is None:
            self._known.pop(digest, None)
            raise ButlerError("unauthorized", "The token is missing or unknown. Send it as `Authorization: Bearer …`.")
        # What was read before a change may be what the change took away.
        if changes == self._changes:
            self._known[digest] = (time.monotonic() + KNOWN_SECONDS, person)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return person

    def forget_all(self) -> None:
        """Users or tokens were changed in this process: it holds from the next request on."""
        self._changes += 1
        self._known.clear()


def ensure_owner(connection: Connection, data_dir: Path, wanted: str | None) -> str:
    """Make the owner on the first start and give its token.

    `wanted` (BUTLER_OWNER_TOKEN) sets the token; otherwise it is what owner.token holds, or a new one written there.
    """
    path = data_dir / TOKEN_FILE
    if wanted is not None:
        token = wanted
    elif path.is_file() and (kept := path.read_text("utf-8").strip()):
        token = kept
    else:
        token = tokens.new_token()
    users.ensure_owner(connection, token)
    _write_private(path, token)
    return token


def rotate(
    connection: Connection, person: Principal, by: Actor, token_id: str | None, *, data_dir: Path, fixed: bool
) -> tuple[Token, str]:
    """`tokens.rotate_tokens`, which for the owner's first token also writes ``owner.token``.

    Args:
        fixed: BUTLER_OWNER_TOKEN is set, and would bring its token back at the next start.
    """
    first = person.name == users.OWNER and (
        token_id is None or tokens.find_token(connection, person, token_id).label == FIRST
    )
    if first and fixed:
        raise ButlerError(
            "invalid_request", "BUTLER_OWNER_TOKEN sets the owner's token; change it there and start Butler anew."
        )
    kept, secret = tokens.rotate_tokens(connection, person, by, token_id)
    if first:
        _write_private(data_dir / TOKEN_FILE, secret)
    return kept, secret


def revoke(connection: Connection, person: Principal, by: Actor, token_id: str | None) -> list[Token]:
    """End one token of a user, or all; of the owner, all but the first.

    Raises: ButlerError ``not_found``; ``invalid_request`` for the owner's first token, which the next start would
    bring back.
    """
    if token_id is not None:
        found = [tokens.find_token(connection, person, token_id)]
        if person.name == users.OWNER and found[0].label == FIRST:
            raise ButlerError(
                "invalid_request",
                f"This is the token in {TOKEN_FILE}; replace it with `butler user token rotate {users.OWNER}`.",
            )
    else:
        found = tokens.live_tokens(connection, person.user_id)
        if person.name == users.OWNER:
            found = [token for token in found if token.label != FIRST]
    tokens.revoke_tokens(connection, person, by, found)
    return found


def _write_private(path: Path, token: str) -> None:
    """Write `token` so that at no moment anybody else can read it."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    draft.replace(path)
