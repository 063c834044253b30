"""Opening the house for `langgraph dev`: the project's own files, held for this process alone (E1).

langgraph.json names `checkpoints` as `checkpointer.path`; the dev server enters it at its start and leaves it last.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from butler.errors import ButlerError, ConfigError
from butler.storage.database import Database
from butler.storage.migrate import migrate
from config.environment import read_environment
from config.settings import load_settings
from graph.build import build_graph
from graph.persistence import open_saver
from graph.studio import StudioSaver
from nodes.context import Faculties
from service.auth import ensure_owner
from service.grants import Grants
from service.house import hold, make_private
from service.studio.listing import list_threads
from service.studio.turns import StudioBrain, StudioTurns
from service.wiring import Configuration, build_faculties, read_configuration

PROJECT = Path(__file__).resolve().parents[2]
DEV_SERVERS_FILES = Path(".langgraph_api")


@asynccontextmanager
async def checkpoints() -> AsyncIterator[StudioSaver]:
    """The saver on the project's checkpoint file, and with it what keeps the books.

    Raises: ConfigError and ButlerError, each told on standard error before: another process serves this data
    directory, the configuration is wrong, or this is not the project's folder.
    """
    async with AsyncExitStack() as stack:
        try:
            configuration, environ = await asyncio.to_thread(_prepare, stack)
            database, faculties = await asyncio.to_thread(_open, configuration, environ, stack)
        except ConfigError as error:
            for problem in error.problems:
                print(f"Studio can't start: {problem}", file=sys.stderr, flush=True)
            raise
        except ButlerError as error:
            print(f"Studio can't start: {error.detail}", file=sys.stderr, flush=True)
            raise
        settings = configuration.settings
        wanted = settings.owner_token.get_secret_value() if settings.owner_token else None
        await database.write(lambda connection: ensure_owner(connection, settings.data_dir, wanted))
        for model in (faculties.model, faculties.compactor):
            if model is not None:
                stack.push_async_callback(model.aclose)
        saver = await stack.enter_async_context(open_saver(settings.data_dir / "checkpoints.db", StudioSaver))
        brain = StudioBrain(build_graph().compile(checkpointer=saver), saver, faculties, database)
        saver.turns = StudioTurns(brain, faculties, database, settings)
        stack.push_async_callback(_end, asyncio.create_task(list_threads(database)))
        if faculties.mcp is not None:
            redefined = Grants(database, faculties.judge, faculties.tools).void_changed
            stack.push_async_callback(_end, asyncio.create_task(faculties.mcp.run(redefined)))
        yield saver


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _prepare(stack: AsyncExitStack) -> tuple[Configuration, dict[str, str]]:
    """Read the configuration and take the data directory for this process."""
    if Path("langgraph.json").resolve() != PROJECT / "langgraph.json":
        raise ButlerError("invalid_config", f"start `langgraph dev` in the project's folder, not in {Path.cwd()}.")
    environ = dict(read_environment().values)
    configuration = read_configuration(load_settings(), environ, channels=False)
    settings = configuration.settings
    with suppress(FileNotFoundError):
        DEV_SERVERS_FILES.chmod(0o700)  # Its list of runs holds what people said.
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for lock in {settings.data_dir / "server.lock", settings.database_path.with_name("server.lock")}:
        stack.callback(os.close, hold(lock))
    for path in (settings.database_path, settings.data_dir / "checkpoints.db"):
        make_private(path)
    migrate(settings.database_path)
    return configuration, environ


def _open(configuration: Configuration, environ: dict[str, str], stack: AsyncExitStack) -> tuple[Database, Faculties]:
    database = Database(configuration.settings.database_path, redactor=configuration.redactor(environ))
    stack.callback(database.close)
    return database, build_faculties(configuration, database, environ)
