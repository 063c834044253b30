"""Who is calling: bearer tokens, looked up by hash (http-api, *Who is calling*)."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import users
from butler.storage.database import Database

KNOWN_SECONDS = 1.0
MOST_KNOWN = 1024
TOKEN_FILE = "owner.token"


class Doorkeeper:
    """Finds the user of a token; what it found holds for a second, so that a busy client costs one look-up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()

    async def who(self, token: str) -> Principal:
        """The user of that token. Raises ButlerError ``unauthorized``."""
        digest = users.hash_token(token)
        until, known = self._known.get(digest, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        person = await self._database.read(partial(users.user_of_token, token=token))
        if person is None:
            self._known.pop(digest, None)
            raise ButlerError("unauthorized", "The token is missing or unknown. Send it as `Authorization: Bearer …`.")
        self._known[digest] = (time.monotonic() + KNOWN_SECONDS, person)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return person


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
        token = users.new_token()
    users.ensure_owner(connection, token)
    _write_private(path, token)
    return token


def _write_private(path: Path, token: str) -> None:
    """Write `token` so that at no moment anybody else can read it."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    draft.replace(path)
