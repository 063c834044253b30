"""Who may use the dev server: an admin of this Butler, with a token of Butler's (A9, E1).

The dev server answers any Host and, without this, anybody: a page in the person's browser could decide for them.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import Any

from langgraph_sdk import Auth

from butler.people import Principal
from butler.storage import tokens
from butler.storage.database import Database
from config.settings import load_settings

auth = Auth()
ALLOWED = {
    *(("threads", action) for action in ("create", "read", "search", "update", "create_run")),
    *(("assistants", action) for action in ("read", "search")),
}
MISSING = "Send a token of an admin of this Butler as `Authorization: Bearer …` or `x-api-key: …` (docs/studio.md)."


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> Auth.types.MinimalUserDict:
    """The admin whose token was sent; 401 without a valid one, 403 for others."""
    person = await _person(_token(headers))
    if person is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail=MISSING)
    if not person.is_admin:
        raise Auth.exceptions.HTTPException(status_code=403, detail="Studio is for admins.")
    return {"identity": person.user_id, "display_name": person.name, "is_authenticated": True}


@auth.on
async def allowed(ctx: Auth.types.AuthContext, value: Any) -> bool:
    """Threads, their runs and the drawing; no schedules, no stores, no other assistants, no deleting of threads."""
    wanted = (ctx.resource, ctx.action)
    # Of a copy only the new id is asked about. It would wait for decisions that Butler knows nothing of.
    is_copy = wanted == ("threads", "create") and "if_exists" not in value
    if wanted == ("threads", "create_run") and (unwanted := _unwanted(value)):
        raise Auth.exceptions.HTTPException(status_code=403, detail=f"Not possible with Butler: {unwanted}.")
    return wanted in ALLOWED and not is_copy


def _unwanted(run: Any) -> str:
    """What of a run would send something to another server, or take back what has happened."""
    arguments = run.get("kwargs") or {}
    configurable = (arguments.get("config") or {}).get("configurable") or {}
    asked = {
        "webhook": arguments.get("webhook"),
        "feedback_keys": arguments.get("feedback_keys"),
        "langsmith_tracer": any(name.startswith("__langsmith") for name in configurable),
        "multitask_strategy rollback": run.get("multitask_strategy") == "rollback",
    }
    return ", ".join(name for name, is_asked in asked.items() if is_asked)


def _token(headers: dict[bytes, bytes]) -> str:
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, token = bearer.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get(b"x-api-key", b"").decode("latin-1").strip()


async def _person(token: str) -> Principal | None:
    if not token:
        return None
    database = await asyncio.to_thread(_database)
    return await database.read(partial(tokens.user_of_token, token=token))


@cache
def _database() -> Database:
    """The project's database, opened at the first request; `checkpoints` has made it by then."""
    return Database(load_settings().database_path)
