"""Putting the supervisor of maids together: registry and routes in, tools and supervisor out (D1, D2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from butler.approvals.judge import Judge
from butler.maids.conditions import Facts, needs_files
from butler.maids.contract import Launcher, Task
from butler.maids.desk import Desk
from butler.maids.facts import health_of_all, project_files
from butler.maids.history import known_of_maids
from butler.maids.launching.choose import launcher_for
from butler.maids.launching.headless import Settings
from butler.maids.means import Means
from butler.maids.provider import ProviderAccessFactory
from butler.maids.supervisor import Supervisor
from butler.redact import Redactor
from butler.storage.database import Database
from butler.tools.delegating import delegating_toolset
from butler.tools.registry import ToolRegistry, Toolset
from config.environment import environment_file
from config.maid_types import MaidDefinition, MaidRegistryFile, RouteDefinition
from config.projects_file import ProjectDefinition

CONFIGURATION = (
    "tools.yml", "policy.yml", "notify.yml", "maid_registry.yml", "intent_maid_routes.yml", "projects.yml",
)  # fmt: skip


def desk_of(
    registry: MaidRegistryFile, routes: tuple[RouteDefinition, ...], folder: Path,
    environ: Mapping[str, str] | None = None, database: Database | None = None,
    projects: tuple[ProjectDefinition, ...] = (),
) -> Desk:  # fmt: skip
    """The desk over these files; without `environ` and `database` it routes by words alone, for looking at."""

    async def gather(task: Task) -> Facts:
        ground = desk.ground(task.project_root)
        wanted = any(needs_files(route) for route in ground.routes if route.intent == task.intent)
        files = await project_files(task.project_root) if wanted else None
        health = await asyncio.to_thread(health_of_all, ground.registry, {**(environ or {}), **ground.variables})
        success, adoption = await database.read(known_of_maids) if database is not None else ({}, {})
        return Facts(
            task.intent, task.instruction, task.project_root, files, health=health, success=success,
            adoption=adoption, maid_id=task.maid_id,
        )  # fmt: skip

    desk = Desk(registry, routes, folder, gather if environ is not None else None, projects)
    return desk


def maid_tools(desk: Desk) -> Toolset:
    """`delegate` and what is asked about for maids."""
    return delegating_toolset(desk.maids, desk.verdict_for)


def supervisor_of(
    desk: Desk, *, database: Database, judge: Judge, tools: ToolRegistry, redactor: Redactor, data_dir: Path,
    environ: Mapping[str, str], access: ProviderAccessFactory | None = None, hidden: Sequence[Path] = (),
) -> Supervisor:  # fmt: skip
    """The supervisor of a house.

    Args:
        hidden: more files that a sandboxed maid can't read.
    """

    # What the sandbox shows of Butler's own folder is the attempt's part alone; programs of maids may lie beside
    # the files of the configuration.
    own = [path for one in desk.projects for path in (one.config_dir, one.env_path, one.session_logs_dir) if path]
    files = (*(desk.folder / name for name in CONFIGURATION), environment_file(environ), *hidden, *own)
    settings = Settings(hidden=(data_dir.absolute(), *files))

    def launcher(maid: MaidDefinition) -> Launcher:
        return launcher_for(maid, settings)

    return Supervisor(
        Means(
            database=database, judge=judge, tools=tools, redactor=redactor, desk=desk,
            folder=data_dir.absolute() / "maids", environ=environ, launcher_for=launcher, access=access,
            hidden=tuple(settings.hidden), at_once=desk.registry.most_at_once,
        )
    )  # fmt: skip
