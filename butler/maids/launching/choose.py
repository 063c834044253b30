"""Which launcher runs a maid: by its kind alone, never by model or provider (D4)."""

from __future__ import annotations

from butler.maids.acp.launcher import AcpLauncher
from butler.maids.contract import Launcher
from butler.maids.launching.cli import CliLauncher
from butler.maids.launching.environment import is_acp
from butler.maids.launching.headless import Settings
from butler.maids.launching.script import ScriptLauncher
from config.maid_types import MaidDefinition


def launcher_for(maid: MaidDefinition, settings: Settings | None = None) -> Launcher:
    """Give the launcher of a maid; a Goose is acp where its second item says so, else cli."""
    settings = settings or Settings()
    if is_acp(maid):
        return AcpLauncher(hidden=settings.hidden, graces=settings.graces)
    return ScriptLauncher(settings) if maid.kind == "script" else CliLauncher(settings)
