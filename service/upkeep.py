"""Keeping the house small: orphans swept soon after the start and once a day, off every turn's path (C7)."""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from butler.storage import upkeep
from butler.storage.database import Database

log = structlog.get_logger("butler.upkeep")

FIRST_SECONDS = 60.0
PAUSE_SECONDS = 24 * 3600.0
BREATH_SECONDS = 0.2


async def sweep_daily(database: Database) -> None:
    """Sweep for as long as the house is open."""
    await asyncio.sleep(FIRST_SECONDS)
    while True:
        try:
            gone = await database.write(upkeep.sweep)
        except (SQLAlchemyError, OSError) as error:
            log.warning("sweep_held_up", error=str(error))
            gone = 0
        if gone:
            log.info("swept", rows=gone)
        await asyncio.sleep(BREATH_SECONDS if gone else PAUSE_SECONDS)
