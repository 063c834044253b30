"""The dev server's list of threads, made anew at each start from Butler's own (E1)."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import httpx
import structlog
from langgraph_sdk import get_client
from langgraph_sdk.errors import LangGraphError
from sqlalchemy import Connection, select

from butler.storage.database import Database
from butler.storage.tables import threads

log = structlog.get_logger("butler.studio")

GRAPH = "butler"
MOST_LISTED = 200
TRIES, PAUSE = 60, 0.5
DEV_SERVER = "langgraph_api.server"
"""In its own process the client speaks to it without a socket, and without a token."""


async def list_threads(database: Database) -> None:
    """Tell the dev server, as soon as it takes requests, of the threads that were changed last, the newest last."""
    if DEV_SERVER not in sys.modules:
        return
    found = await database.read(_newest)
    client = get_client()
    for thread_id, title in found:
        create = partial(
            client.threads.create,
            thread_id=thread_id,
            graph_id=GRAPH,
            metadata={"title": title},
            if_exists="do_nothing",
        )
        for _ in range(TRIES):
            try:
                await create()
                break
            except (LangGraphError, httpx.HTTPError) as error:
                log.debug("dev_server_not_ready", error=str(error))
                await asyncio.sleep(PAUSE)
        else:
            log.warning("threads_not_listed", thread_id=thread_id)
            return


def _newest(connection: Connection) -> list[tuple[str, str]]:
    query = (
        select(threads.c.thread_id, threads.c.title)
        .where(threads.c.turns >= 0)
        .order_by(threads.c.updated_at.desc())
        .limit(MOST_LISTED)
    )
    return [(row.thread_id, row.title) for row in reversed(connection.execute(query).all())]
