"""The graph as LangGraph Studio's server runs it: the same nodes, led by the same ledger (B1, E1).

That server keeps a table of threads of its own and calls `astream` with what its client sent. Here this becomes a turn
of Butler's: input and resumes are read by `Turns`, which the checkpointer brings along; a resume never reaches a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from langchain_core.messages import AIMessageChunk, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot
from pydantic import BaseModel

from butler.errors import ButlerError
from butler.types import Json
from graph.build import build_graph, recursion_limit
from graph.persistence import ThreadedSaver
from graph.studio_view import shown
from nodes.context import Faculties, TurnContext

KEPT = ("thread_id", "checkpoint_ns", "run_id", "graph_id", "assistant_id")
"""What of the server's configuration reaches the checkpoints, whose metadata is in clear; and keys with ``__``."""


WENT_WRONG = "Something went wrong inside Butler, and the turn has ended; the log says what."


class StudioInput(BaseModel):
    """What Studio's form asks for, and what chat clients send."""

    messages: list[AnyMessage]


class Refused(ValueError):
    """A ButlerError in the form whose text the dev server passes on; of others it tells the class alone."""

    def __init__(self, error: ButlerError) -> None:
        super().__init__(f"{error.code}: {error.detail}")


@dataclass(frozen=True)
class Asked:
    """One run of the dev server. `questions` are the open interrupts of the head by id, with their actions."""

    thread_id: str
    run_id: str
    user: Any
    given: Any
    questions: Mapping[str, str]


@dataclass(frozen=True)
class Stretch:
    """One invocation of the graph: up to the next park or the end of a turn."""

    run_id: str
    state_in: Json | None
    context: TurnContext


class Turns(Protocol):
    """Who keeps the books while the dev server runs the graph; see `service.studio.turns`."""

    faculties: Faculties

    def holding(self, thread_id: str) -> AbstractAsyncContextManager[Any]:
        """One run of a thread at a time."""

    async def begin(self, asked: Asked) -> Stretch | None:
        """Take in what was asked; None when there is nothing to run. Raises ButlerError for what is refused."""

    async def settle(self, stretch: Stretch, snapshot: StateSnapshot) -> Stretch | None:
        """Write down the park or the end; what the thread goes on with, if anything."""

    async def fail(self, stretch: Stretch, error: Exception) -> None:
        """End the turn as failed."""

    async def cancel(self, stretch: Stretch) -> None:
        """End the turn as cancelled."""


class StudioSaver(ThreadedSaver):
    """The saver that `checkpointer.path` gives to the dev server; with it comes who keeps the books."""

    turns: Turns


def say(kind: str, data: Json) -> None:
    """Send an event of the turn into the stream mode `custom`; outside of a node nobody listens."""
    with suppress(RuntimeError):
        get_stream_writer()({"event": kind, **data})


class StudioGraph(CompiledStateGraph[Any, TurnContext, Any, Any]):
    """A compiled graph whose runs are turns of Butler's."""

    @property
    def turns(self) -> Turns:
        """Who keeps the books. Raises Refused for a run without a thread, which has no checkpointer."""
        found = getattr(self.checkpointer, "turns", None)
        if found is None:
            raise Refused(ButlerError("invalid_request", "Butler needs a thread: create one and run in it."))
        return cast(Turns, found)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, stream_mode: Any = None,
        durability: Any = None, **rest: Any,
    ) -> AsyncIterator[Any]:  # fmt: skip
        """Run what the client asked for as one turn or more, with Butler's own context and durability."""
        turns, given = self.turns, (config or {}).get("configurable", {})
        wanted = {stream_mode} if isinstance(stream_mode, str) else set(stream_mode or ("values",))
        modes = [*wanted, "custom"] if "messages" in wanted and "custom" not in wanted else [*wanted]
        thread_id = str(given["thread_id"])
        async with turns.holding(thread_id):
            head = await super().aget_state({"configurable": {"thread_id": thread_id}})
            _refuse_the_past(given, head)
            questions = {one.id: str(one.value["action_id"]) for one in head.interrupts}
            asked = Asked(thread_id, str(given.get("run_id") or ""), given.get("langgraph_auth_user"), input, questions)
            try:
                stretch = await turns.begin(asked)
            except ButlerError as error:
                raise Refused(error) from None
            while stretch is not None:
                try:
                    run = super().astream(
                        stretch.state_in, _own_config(config, turns, stretch.run_id), context=stretch.context,
                        stream_mode=cast(Any, modes), durability="sync", **rest,
                    )  # fmt: skip
                    async with aclosing(cast(Any, run)) as parts:
                        async for part in parts:
                            for told in _told(part, wanted, stretch, turns.faculties):
                                yield told
                except Exception as error:
                    await turns.fail(stretch, error)
                    raise Refused(ButlerError("internal", WENT_WRONG)) from error
                except (asyncio.CancelledError, GeneratorExit):
                    await asyncio.shield(turns.cancel(stretch))
                    raise
                snapshot = await super().aget_state({"configurable": {"thread_id": thread_id}})
                stretch = await turns.settle(stretch, snapshot)

    def astream_events(self, input: Any, config: RunnableConfig | None = None, **rest: Any) -> Any:
        """LangGraph's newer protocol (``version="v3"``), which is made of `astream`.

        Raises: Refused for the stream mode ``events``: every node's raw input and output, which nobody masks.
        """
        if rest.get("version") != "v3":
            raise Refused(ButlerError("invalid_request", "The stream mode `events` is not offered; use another."))
        return super().astream_events(input, config, **rest)

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """A state of the thread, as it is shown."""
        return cast(StateSnapshot, shown(await super().aget_state(config, subgraphs=subgraphs), self.turns.faculties))

    async def aget_state_history(self, config: RunnableConfig, **rest: Any) -> AsyncIterator[StateSnapshot]:
        """The states of the thread, the newest first, as they are shown."""
        async for found in super().aget_state_history(config, **rest):
            yield shown(found, self.turns.faculties)

    async def abulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """Raises Refused: what a turn says of itself must agree with the ledger."""
        error = ButlerError("forbidden", "Butler's threads can't be edited: the ledger would not agree with them.")
        raise Refused(error)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """What Studio's form is made of."""
        return StudioInput.model_json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The talk."""
        return StudioInput.model_json_schema()

    def config_schema(self, *, include: Any = None) -> type[BaseModel]:
        """Nothing, as for the context."""
        return BaseModel

    def get_context_jsonschema(self, **_rest: Any) -> dict[str, Any] | None:
        """Nothing: a client chooses nothing of the context."""
        return None


def studio_graph() -> StudioGraph:
    """The graph of `graph.build` for the dev server, which compiles it with its checkpointer."""
    compiled = build_graph().compile()
    return StudioGraph(**{name: value for name, value in vars(compiled).items() if name != "__orig_class__"})


def _own_config(config: RunnableConfig | None, turns: Turns, run_id: str) -> RunnableConfig:
    """The server's configuration without what came from the client: headers, the user, an older checkpoint.

    It names the turn's own run: LangGraph takes input under the run of the head for a resume, and drops it.
    """
    given, about = (config or {}).get("configurable", {}), (config or {}).get("metadata", {})
    kept = {name: value for name, value in given.items() if name in KEPT or name.startswith("__")}
    own = {
        "configurable": kept | {"run_id": run_id}, "metadata": {**about, "run_id": run_id},
        "recursion_limit": recursion_limit(turns.faculties.max_tool_rounds),
    }  # fmt: skip
    return cast(RunnableConfig, {**(config or {}), **own})


def _refuse_the_past(given: Mapping[str, Any], head: StateSnapshot) -> None:
    """A client names the checkpoint that it has seen; an answer to an older one was meant for another question."""
    seen = given.get("checkpoint_id")
    if seen and seen != head.config.get("configurable", {}).get("checkpoint_id"):
        detail = "The thread has moved on since; look at it again. Butler goes on from the newest state."
        raise Refused(ButlerError("stale_decision", detail))


def _told(part: Any, wanted: set[str], stretch: Stretch, faculties: Faculties) -> list[Any]:
    """A part of the graph's stream as the client gets it: in the form it came in, or not at all."""
    if isinstance(part, dict):
        return [{**part, "data": shown(part["data"], faculties)}] if part["type"] in wanted else []
    *where, mode, data = part
    told = [(*where, mode, shown(data, faculties))] if mode in wanted else []
    if mode == "custom" and "messages" in wanted and isinstance(data, dict) and data.get("event") == "token":
        chunk = AIMessageChunk(content=data["text"], id=f"{stretch.run_id}:draft")
        told.append((*where, "messages", (chunk, {"langgraph_node": "think"})))
    return told


graph = studio_graph()
