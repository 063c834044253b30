"""The tools for downstream agents, over an open house or for looking at (B5)."""

from __future__ import annotations

from typing import cast

from butler.agents.switchboard import Switchboard
from butler.storage.database import Database
from butler.tools.commanding import AgentTools
from butler.tools.registry import Toolset


def agent_toolsets(
    database: Database | None = None, board: Switchboard | None = None, timeout: float = 0.0
) -> list[Toolset]:
    """The toolsets; without a database they can be read about and ruled on, not run."""
    return AgentTools(cast(Database, database), board or Switchboard(), timeout).toolsets()
