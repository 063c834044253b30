"""Nodes and edges of the butler, nothing else (design, *The graph*)."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from butler.tools.delegating import DELEGATE
from butler.turn import ActInput, TurnState
from graph.maids import build_maids
from graph.state import GraphState
from nodes.act import act
from nodes.classify import classify
from nodes.compact import compact, should_compact
from nodes.context import TurnContext
from nodes.intake import intake
from nodes.think import think


def build_graph() -> StateGraph[GraphState, TurnContext]:
    """The uncompiled graph; whoever runs it compiles it with a checkpointer of its own (B1)."""
    graph = StateGraph(GraphState, context_schema=TurnContext)
    graph.add_node("intake", intake)
    graph.add_node("think", think)
    graph.add_node("classify", classify)
    graph.add_node("act", act, input_schema=ActInput)
    graph.add_node("delegate", build_maids(), input_schema=ActInput)
    graph.add_node("compact", compact)
    graph.add_edge(START, "intake")
    graph.add_conditional_edges("intake", after_intake, ["think", "classify", END])
    graph.add_conditional_edges("think", after_think, ["classify", "compact", END])
    graph.add_conditional_edges("classify", after_classify, ["act", "delegate", "think"])
    graph.add_edge("act", "think")
    graph.add_edge("delegate", "think")
    graph.add_edge("compact", END)
    return graph


def after_intake(state: TurnState) -> str:
    """A /command goes straight to its verdict, a wrong one ends; all else is for the model."""
    if state.get("ending") is not None:
        return END
    return "classify" if state.get("command") else "think"


def after_think(state: TurnState) -> str:
    """Calls are classified; a finished turn ends, by way of `compact` when the context has grown."""
    if state.get("ending") is None:
        return "classify"
    return "compact" if should_compact(state) else END


def after_classify(state: TurnState) -> list[Send] | str:
    """One `Send` per call that may run now or later; without any the model hears the results at once."""
    calls = state.get("calls") or []
    if not calls:
        return "think"
    return [
        Send("delegate" if call["tool"] == DELEGATE else "act", ActInput(call=call, incoming=state["incoming"]))
        for call in calls
    ]


def recursion_limit(max_tool_rounds: int) -> int:
    """Supersteps a turn may take: three a round and some for its ends; LangGraph's own default is 10,007.

    A delegated task counts its own steps against the same number: four for each attempt, and its ends.
    """
    return 3 * (max_tool_rounds + 2) + 110
