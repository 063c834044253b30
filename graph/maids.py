"""The sub-graph of a delegated task: claim → route → prepare → attempt ⇄ verify → review → apply → report (D1-D10)."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from butler.turn import ActInput
from nodes.context import TurnContext
from nodes.maids.apply import apply
from nodes.maids.attempt import attempt
from nodes.maids.claim import claim
from nodes.maids.common import MaidResults, MaidState, where_to
from nodes.maids.permission import permission
from nodes.maids.prepare import prepare
from nodes.maids.report import report
from nodes.maids.review import review
from nodes.maids.route import route
from nodes.maids.verify import verify

FROM_EACH: dict[str, list[str]] = {
    "claim": ["route", "prepare", "permission", "attempt", "verify", "review", "apply", "report", "end"],
    "route": ["prepare", "report"],
    "prepare": ["attempt", "permission", "report"],
    "permission": ["attempt"],
    "attempt": ["verify", "permission", "attempt", "prepare", "review", "report"],
    "verify": ["attempt", "review", "report"],
    "review": ["apply", "attempt", "report"],
    "apply": ["review", "report"],
}
"""Where a step may lead; `claim` anywhere, since after a crash the database may know more than the checkpoint."""


def build_maids() -> CompiledStateGraph[Any, TurnContext, Any, Any]:
    """The compiled sub-graph; as a node of the turn's graph it shares that one's checkpoints."""
    graph = StateGraph(MaidState, context_schema=TurnContext, input_schema=ActInput, output_schema=MaidResults)
    for name, node in (
        ("claim", claim), ("route", route), ("prepare", prepare), ("permission", permission), ("attempt", attempt),
        ("verify", verify), ("review", review), ("apply", apply), ("report", report),
    ):  # fmt: skip
        graph.add_node(name, node, input_schema=MaidState)
    graph.add_edge(START, "claim")
    for name, targets in FROM_EACH.items():
        graph.add_conditional_edges(name, where_to, {target: END if target == "end" else target for target in targets})
    graph.add_edge("report", END)
    return graph.compile()
