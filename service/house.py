"""Opening and closing the house: files, recovery, background work, in the order that loses nothing (F3)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Connection

from butler.clock import stamp
from butler.errors import ConfigError, Problem
from butler.storage import conversations
from butler.storage.database import Database
from butler.storage.migrate import migrate
from butler.telemetry import use
from graph.build import build_graph
from graph.persistence import open_checkpoints
from nodes.context import Faculties
from service.auth import ensure_owner
from service.brain import Brain
from service.butler import ButlerService
from service.consolidating import Consolidator
from service.deadlines import watch
from service.decisions import Decisions
from service.effects import settle_effects
from service.events import RunLogs
from service.grants import Grants
from service.notify.announcing import Replies
from service.notify.channels import Channels
from service.notify.links import SignedLinks
from service.notify.opening import open_notifier
from service.runs import TROUBLE, Runs
from service.stops import Next, start_next
from service.upkeep import sweep_daily
from service.watching.opening import open_telemetry
from service.wiring import Configuration, build_faculties, hidden_model

log = structlog.get_logger("butler.house")

LOOK_SECONDS = 0.3
"""Longer than a look at the lock takes, on a busy machine too."""


@dataclass(frozen=True)
class House:
    """A running butler and the owner's token."""

    service: ButlerService
    owner_token: str


@asynccontextmanager
async def open_house(configuration: Configuration, environ: Mapping[str, str], url: str) -> AsyncIterator[House]:
    """Open everything, recover what an earlier process left, serve at `url`, and close in reverse order."""
    settings = configuration.settings
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        telemetry = open_telemetry(environ)
        use(telemetry)
        stack.push_async_callback(asyncio.to_thread, telemetry.close)
        for lock in {settings.data_dir / "server.lock", settings.database_path.with_name("server.lock")}:
            stack.callback(os.close, hold(lock))
        for path in (settings.database_path, settings.data_dir / "checkpoints.db"):
            make_private(path)
        await asyncio.to_thread(migrate, settings.database_path)
        database = Database(settings.database_path, redactor=configuration.redactor(environ))
        stack.callback(database.close)
        wanted = settings.owner_token.get_secret_value() if settings.owner_token else None
        token = await database.write(lambda connection: ensure_owner(connection, settings.data_dir, wanted))
        saver = await stack.enter_async_context(open_checkpoints(settings.data_dir / "checkpoints.db"))
        faculties = build_faculties(configuration, database, environ)
        if faculties.model is not None:
            stack.push_async_callback(faculties.model.aclose)
        if faculties.compactor is not None:
            stack.push_async_callback(faculties.compactor.aclose)
        graph = build_graph().compile(checkpointer=saver)
        logs = RunLogs()
        channels = Channels(configuration.channels)
        brain = Brain(graph, saver, faculties, database)
        runs = Runs(brain, faculties, database, logs, Replies(channels).ended)
        decisions = Decisions(database, runs, faculties.judge)
        links = SignedLinks(settings.data_dir, settings.public_url or url)
        service = ButlerService(faculties, database, runs, decisions, links)
        await recover(service)
        speaker = hidden_model(settings, faculties.model)
        if speaker is not None and speaker is not faculties.model:
            stack.push_async_callback(speaker.aclose)
        tidying = Consolidator(
            database, speaker, faculties.redactor, timeout=settings.compaction.timeout, busy=lambda: logs.busy
        )
        background = service.background
        stack.push_async_callback(background.stop)
        background.start("deadlines", lambda: watch(database, decisions))
        background.start("leases", runs.renew_leases)
        background.start("model", lambda: _warm(faculties))
        background.start("checkpoints", runs.brain.sweep)
        if faculties.maids is not None:
            background.start("maids", faculties.maids.keep_tidy)
        if (mcp := faculties.mcp) is not None:
            redefined = Grants(database, faculties.judge, faculties.tools).void_changed
            background.start("mcp", lambda: mcp.run(redefined))
        background.start("index", service.memory.archive.keep_up)
        background.start("upkeep", lambda: sweep_daily(database))
        background.start("memories", tidying.keep_tidy)
        if len(channels):
            background.start("notifications", open_notifier(service, channels, TROUBLE).run)
        yield House(service, token)
        logs.close()
        await runs.drain()


def hold(lock: Path) -> int:
    """Hold a directory for this process alone; the lock goes with the process, however it ends.

    Raises:
        ConfigError: another server has it. Whoever only looks at it, as the doctor does, is waited for.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + LOOK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() < end:
                time.sleep(LOOK_SECONDS / 20)
                continue
            os.close(descriptor)
            problem = Problem(
                "environment", 0, "BUTLER_DATA_DIR",
                f"another Butler serves {lock.parent} already; stop it or choose another directory",
            )  # fmt: skip
            raise ConfigError([problem]) from None
        return descriptor


def make_private(path: Path) -> None:
    """Create a database file for the owner's eyes only; SQLite gives its companions the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)


async def recover(service: ButlerService) -> None:
    """Pick up what an earlier process left: unknown effects first, then interrupted runs, then the queue (design)."""
    database, runs = service.database, service.runs
    await Grants(database, service.faculties.judge, service.faculties.tools).void_changed()
    running, waiting = await database.read(conversations.unfinished)
    for run in running:
        await settle_effects(database, service.faculties.tools, run.run_id)
    if service.faculties.maids is not None:
        await service.faculties.maids.recover()
    await service.decisions.expire(stamp())
    for run in running:
        await runs.recover(run)
    lease = runs.lease()

    def start(connection: Connection) -> list[Next]:
        return [start_next(connection, thread_id, lease) for thread_id in waiting]

    for following in await database.write(start):
        runs.tell_dropped(following)
        if following.run is not None:
            runs.drive(following.run, fresh=True)


async def _warm(faculties: Faculties) -> None:
    """Load the model client before the first message needs it."""
    if faculties.model is not None:
        await faculties.model.warm()
