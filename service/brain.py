"""The brain as the service drives it: one compiled graph, its checkpoints, and what a thread's head says (B1)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph
from structlog.contextvars import bound_contextvars

from butler import telemetry
from butler.approvals import ledger
from butler.storage import conversations
from butler.storage.database import Database
from butler.types import Json
from graph.build import recursion_limit
from graph.persistence import ThreadedSaver
from nodes.context import Emit, Faculties, TurnContext
from nodes.rounds import Round

Graph = CompiledStateGraph[Any, TurnContext, Any, Any]


class Brain:
    """Runs the graph on a thread and mends its head; the caller holds the thread's lock."""

    def __init__(self, graph: Graph, saver: ThreadedSaver, faculties: Faculties, database: Database) -> None:
        self._graph = graph
        self._saver = saver
        self._faculties = faculties
        self._database = database

    def _config(self, thread_id: str) -> Any:
        return {
            "configurable": {"thread_id": thread_id},
            "recursion_limit": recursion_limit(self._faculties.max_tool_rounds),
        }

    async def invoke(
        self, thread_id: str, run_id: str, state_in: Json | None, emit: Emit, calls: Round, draft: list[str]
    ) -> Json:
        """Go on to the next park or end; None as input continues from the head and answers no question."""
        with (
            bound_contextvars(thread_id=thread_id, run_id=run_id),
            telemetry.span(
                "butler.user_message", {"gen_ai.conversation.id": thread_id, "butler.run.id": run_id}
            ) as told,
        ):
            state: Json = await self._graph.ainvoke(
                state_in,
                self._config(thread_id),
                context=TurnContext(self._faculties, emit, calls, draft),
                durability="sync",
            )
            told.note(_told(state))
            return state

    async def head_of(self, thread_id: str, run_id: str) -> Literal["here", "absent", "lost"]:
        """What the checkpoints know of a run: its turn, nothing yet, or less than the ledger.

        Lost: calls of the run stand in the ledger that the head has never heard of, so the newest checkpoints are
        gone (a power cut). To go on from an older one could make the model ask for the same effects again.
        """
        state: Json = (await self._graph.aget_state(self._config(thread_id))).values
        here = state.get("turn_of") == run_id
        messages = state["messages"][state["turn_start"] :] if here else []
        known = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
        recorded = await self._database.read(partial(ledger.of_run, run_id=run_id))
        # What is asked about on behalf of a call has that call's id before the colon.
        if any(action.call_id.partition(":")[0] not in known for action in recorded):
            return "lost"
        return "here" if here else "absent"

    async def prune(self, thread_id: str) -> None:
        """Drop what is older than the head of a thread whose turn has ended."""
        await self._saver.aprune([thread_id])

    async def context_of(self, thread_id: str) -> tuple[list[Json], str, list[Json]]:
        """The recent messages, the summary and its notes of a thread as its newest checkpoint has them."""
        values = (await self._graph.aget_state(self._config(thread_id))).values
        return values.get("messages") or [], values.get("summary") or "", values.get("notes") or []

    async def end_turn(self, thread_id: str, run_id: str, why: str, shown: str = "") -> Json | None:
        """Give every open call of the head its result from the ledger and end the turn there.

        `shown` is text that the person has seen already and the head does not have.

        Returns: the state as it then is; None when the turn has not got as far as `intake`.
        """
        config = self._config(thread_id)
        state: Json = (await self._graph.aget_state(config)).values
        if state.get("turn_of") != run_id:
            return None
        if state.get("ending") is not None:
            return state
        recorded = {
            action.call_id: action.result for action in await self._database.read(partial(ledger.of_run, run_id=run_id))
        }
        results = state.get("results") or {}
        messages = list(state["messages"])
        if messages[-1].get("tool_calls"):
            for call in messages[-1]["tool_calls"]:
                known = recorded.get(call["id"]) or results.get(call["id"], {}).get("text")
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": known or f"Not run: {why}."})
        if messages[-1].get("content") == shown:
            shown = ""
        note = f"({why[0].upper()}{why[1:]}.)"
        told = f"{shown}\n\n{note}" if shown else note
        messages.append({"role": "assistant", "content": shown or f"[No answer was given: {why}.]", "shown": told})
        ending = {"status": "failed", "reply": shown, "error": None}
        update = {"messages": messages, "calls": [], "ending": ending, "compact_due": False}
        await self._graph.aupdate_state(config, update, as_node="think")
        return state | update

    async def forget(self, thread_id: str) -> None:
        """Remove all checkpoints of a thread."""
        await self._saver.adelete_thread(thread_id)

    async def sweep(self) -> None:
        """Drop what a crash left behind: checkpoints of deleted threads, and old ones of threads that are idle."""
        stored = await self._saver.threads()
        # Read after the checkpoints: a thread that is new by now has its row before its first checkpoint.
        known, idle = await self._database.read(conversations.thread_ids)
        for thread_id in stored.keys() - known:
            await self._saver.adelete_thread(thread_id)
        await self._saver.aprune([thread_id for thread_id in idle if stored.get(thread_id, 0) > 1])

    async def ping(self) -> None:
        """Prove that the checkpoint file answers."""
        await self._saver.ping()


def _told(state: Json) -> telemetry.Attributes:
    """What a span tells of a turn at its end or park."""
    usage, ending = state.get("usage") or {}, state.get("ending") or {}
    status = "parked" if state.get("__interrupt__") else str(ending.get("status", "failed"))
    return {
        "butler.turn.status": status,
        "gen_ai.usage.input_tokens": usage.get("input_tokens", 0),
        "gen_ai.usage.output_tokens": usage.get("output_tokens", 0),
    }  # fmt: skip
