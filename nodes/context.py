"""What the nodes work with: the faculties of this butler and where events of this run go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from butler.agents.switchboard import Switchboard
from butler.approvals.judge import Judge
from butler.approvals.ledger import Ledger
from butler.maids.supervisor import Supervisor
from butler.mcp.servers import McpServers
from butler.memory.blocks import MemoryBlocks
from butler.memory.compaction import Compactor
from butler.models.gateway import ModelGateway
from butler.people import Principal
from butler.redact import Redactor
from butler.tools.registry import ToolRegistry
from butler.turn import Incoming
from butler.types import Json
from nodes.rounds import Round

Emit = Callable[[str, Json], None]


@dataclass(frozen=True)
class Faculties:
    """Everything a turn needs from the house; the same object serves every run.

    `model` is None while no endpoint is configured; `model_missing` then names the variables to set.
    `context_limit` is in tokens; `max_tool_rounds` bounds a turn (A1).
    """

    ledger: Ledger
    judge: Judge
    tools: ToolRegistry
    model: ModelGateway | None
    model_missing: tuple[str, ...]
    compactor: Compactor | None
    redactor: Redactor
    context_limit: int
    max_tool_rounds: int
    memory: MemoryBlocks | None = None
    maids: Supervisor | None = None
    agents: Switchboard | None = None
    mcp: McpServers | None = None


@dataclass(frozen=True)
class TurnContext:
    """The runtime context of one graph invocation; never stored in a checkpoint."""

    faculties: Faculties
    emit: Emit
    round: Round = field(default_factory=Round)
    draft: list[str] = field(default_factory=list)
    """The text of the model call under way, so that a cancelled turn keeps what was shown."""


def requester(incoming: Incoming) -> Principal:
    """The person whose turn it is."""
    return Principal(incoming["user_id"], incoming["user_name"], incoming["user_role"])
