"""The brain without a service: the real graph, ledger, judge and tools over a model that says its lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.judge import Judge
from butler.approvals.ledger import Ledger
from butler.maids.supervisor import Supervisor
from butler.memory.compaction import Compactor
from butler.models.gateway import ModelGateway
from butler.people import Principal
from butler.redact import Redactor
from butler.storage.database import Database
from butler.tools.registry import ToolRegistry
from butler.types import ChatMessage, Invocation, Json, ModelReply, ProposedCall, ToolResult, ToolSpec, Usage
from config.policy_file import RuleDefinition
from graph.build import build_graph, recursion_limit
from graph.persistence import open_checkpoints
from nodes.context import Faculties, TurnContext
from nodes.rounds import Round
from tests.support.parts import ADMIN, add_people, judge, new_database, registry, tool

Line = ModelReply | Exception
MakeMaids = Callable[[Database, Judge, ToolRegistry], Supervisor]
Call = tuple[str, Any] | tuple[str, Any, str]


def says(text: str = "", *calls: Call) -> ModelReply:
    """A line of the model: text, and calls as (name, arguments[, id]); arguments may be raw text."""
    made = tuple(
        ProposedCall(call[2] if len(call) == 3 else f"c{number}-{call[0]}", call[0], _json(call[1]))
        for number, call in enumerate(calls)
    )
    return ModelReply(text, made, Usage(10, 5, 1), "tool_calls" if made else "stop", "scripted")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass
class SpokenModel:
    """Stands where the gateway stands; `heard` is every request, as it would go over the wire."""

    lines: list[Line] = field(default_factory=list)
    heard: list[list[ChatMessage]] = field(default_factory=list)
    endpoint: str = "spoken"

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Json],
        on_text: Callable[[str], None],
        on_notice: Callable[[str], None] | None = None,
    ) -> ModelReply:
        """Say the next line."""
        self.heard.append([dict(message) for message in messages])
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        for word in line.text.split(" ") if line.text else ():
            on_text(word)
        return line


@dataclass
class Journal:
    """Tools whose effects are counted."""

    lines: list[str] = field(default_factory=list)

    async def write(self, call: Invocation) -> ToolResult:
        """The effect."""
        self.lines.append(call.args["text"])
        return ToolResult(f"wrote {call.args['text']}")


@dataclass
class Brain:
    """A compiled graph with everything that it needs, and what came out of it."""

    graph: CompiledStateGraph[Any, TurnContext, Any, Any]
    faculties: Faculties
    database: Database
    model: SpokenModel
    journal: Journal
    events: list[tuple[str, Json]] = field(default_factory=list)
    turns: int = 0
    round: Round = field(default_factory=Round)

    async def say(self, message: str, person: Principal = ADMIN, thread_id: str = "thread") -> Json:
        """Begin a turn, and go on to its end or park."""
        self.turns += 1
        incoming = {
            "run_id": f"run-{self.turns}", "thread_id": thread_id, "message": message, "user_id": person.user_id,
            "user_name": person.name, "user_role": person.role,
        }  # fmt: skip
        return await self.go({"incoming": incoming}, thread_id)

    async def go(self, given: Any = None, thread_id: str = "thread") -> Json:
        """Invoke the graph with `given`; None goes on by what the ledger says."""
        self.round = Round()
        state = await self.graph.ainvoke(
            given,
            self.config(thread_id),
            context=TurnContext(self.faculties, lambda event, data: self.events.append((event, data)), self.round),
            durability="sync",
        )
        return cast(Json, state)

    def config(self, thread_id: str = "thread") -> Any:
        """The graph's config for a thread."""
        limit = recursion_limit(self.faculties.max_tool_rounds)
        return {"configurable": {"thread_id": thread_id}, "recursion_limit": limit}

    async def pending(self, thread_id: str = "thread") -> list[Action]:
        """What waits for a decision."""
        return await self.database.read(lambda connection: ledger.pending_of_thread(connection, thread_id))

    async def decide(
        self,
        action: Action,
        kind: Literal["approve", "edit", "reject", "respond"],
        person: Principal = ADMIN,
        **more: Any,
    ) -> Action:
        """Decide through the one way in."""

        def write(connection: Connection) -> Action:
            decision = Decision(kind, **more)
            return decide(connection, action.action_id, decision, person, via="test", judge=self.faculties.judge)

        return await self.database.write(write)

    def told(self, event: str) -> list[Json]:
        """The data of all events of that kind."""
        return [data for name, data in self.events if name == event]


@asynccontextmanager
async def open_brain(
    home: Path,
    *lines: Line,
    rules: Sequence[RuleDefinition] = (),
    tools: Sequence[ToolSpec] = (),
    on_disk: bool = False,
    model: bool = True,
    compactor: Compactor | None = None,
    maids: MakeMaids | None = None,
    max_tool_rounds: int = 8,
    context_limit: int = 100_000,
    secrets: Sequence[str] = (),
) -> AsyncIterator[Brain]:
    """A brain over the files in `home`, new ones if there are none.

    Its tools `free` (allowed), `gated` (asks) and `never` (refused) write to one journal.
    """
    database = new_database(home / "butler.db")
    database.write_now(add_people)
    journal, spoken = Journal(), SpokenModel(list(lines))
    standard = [tool("free", "allow", journal.write), tool("gated", "approve", journal.write),
                tool("never", "refuse", journal.write)]  # fmt: skip
    known: ToolRegistry = registry(*standard, *tools)
    ruler: Judge = judge(known, *rules)
    faculties = Faculties(
        ledger=Ledger(database), judge=ruler, tools=known, model=cast(ModelGateway, spoken) if model else None,
        model_missing=() if model else ("BUTLER_MODEL",), compactor=compactor, redactor=Redactor(secrets),
        context_limit=context_limit, max_tool_rounds=max_tool_rounds,
        maids=maids(database, ruler, known) if maids is not None else None,
    )  # fmt: skip

    def made(saver: BaseCheckpointSaver[Any]) -> Brain:
        return Brain(build_graph().compile(checkpointer=saver), faculties, database, spoken, journal)

    try:
        if on_disk:
            async with open_checkpoints(home / "checkpoints.db") as saver:
                yield made(saver)
        else:
            yield made(InMemorySaver())
    finally:
        database.close()
