"""The graph of `langgraph dev` without the dev server: the same saver, books and graph, in this process."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.types import Command

from graph.studio import StudioGraph, StudioSaver, studio_graph
from service.studio.opening import checkpoints

Json = dict[str, Any]


class Bench:
    """Runs as the dev server starts them, for one person."""

    def __init__(self, saver: StudioSaver, user_id: str) -> None:
        self.saver = saver
        self.graph: StudioGraph = studio_graph().copy({"checkpointer": saver})
        self.user: Json | None = {"identity": user_id}

    async def run(
        self,
        thread_id: str,
        given: Any,
        *,
        run_id: str = "",
        modes: tuple[str, ...] = ("values",),
        interrupt_before: Any = None,
        **place: Any,
    ) -> list[Any]:
        """One run to its end."""
        config: Any = {
            "configurable": {
                "thread_id": thread_id, "run_id": run_id or str(uuid.uuid4()), "langgraph_auth_user": self.user,
                "x-evil": "header", "graph_id": "butler", **place,
            }
        }  # fmt: skip
        run = self.graph.astream(given, config, stream_mode=list(modes), interrupt_before=interrupt_before)
        return [part async for part in run]

    async def say(self, text: Any, thread_id: str = "", **more: Any) -> str:
        """A message, in a new thread unless one is named; gives the thread."""
        thread_id = thread_id or str(uuid.uuid4())
        await self.run(thread_id, {"messages": [{"type": "human", "content": text}]}, **more)
        return thread_id

    async def decide(self, thread_id: str, *decisions: Json, **more: Any) -> None:
        """A resume in LangChain's form."""
        await self.run(thread_id, Command(resume={"decisions": list(decisions)}), **more)

    async def waits(self, thread_id: str) -> list[Any]:
        """The open interrupts."""
        state = await self.graph.aget_state({"configurable": {"thread_id": thread_id}})
        return list(state.interrupts)

    async def messages(self, thread_id: str) -> list[Json]:
        """The talk as it is shown."""
        state = await self.graph.aget_state({"configurable": {"thread_id": thread_id}})
        return list(state.values["messages"])


@asynccontextmanager
async def bench(user: str = "owner") -> AsyncIterator[Bench]:
    """Open what `langgraph dev` opens, with the settings of the environment."""
    async with checkpoints() as saver:
        turns: Any = saver.turns
        from butler.storage import users

        person = await turns._database.read(lambda connection: users.the_user(connection, user))
        yield Bench(saver, person.user_id)
