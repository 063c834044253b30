"""Where a tool that may run by itself asks after all, for a reason that lies in the talk (A3, C6)."""

from __future__ import annotations

from dataclasses import replace

import structlog

from butler.types import Json, Occasion, Ruling, ToolSpec, Verdict

log = structlog.get_logger(__name__)

OBSTACLE = "tool:"
"""How the rule of a ruling begins that comes from the tool itself, since the call can't be carried out."""


def own_verdict(tool: ToolSpec | None, args: Json) -> Verdict | None:
    """The tool's own default verdict on a call; None when it has none. What can't be found out asks."""
    if tool is None or tool.verdict_for is None:
        return tool.verdict if tool is not None else None
    try:
        return tool.verdict_for(args)
    except Exception:
        log.exception("own_verdict_failed", tool=tool.name)
        return "approve"


def obstructed(tool: ToolSpec | None, occasion: Occasion) -> Ruling | None:
    """The refusal of a call that can't be carried out now; None when nothing is known against it."""
    if tool is None or tool.obstacle is None:
        return None
    try:
        why = tool.obstacle(occasion)
    except Exception as error:
        log.exception("obstacle_failed", tool=tool.name)
        why = f"Whether it can be carried out could not be found out ({type(error).__name__}: {error})."
    return None if why is None else Ruling("refuse", f"{OBSTACLE}{tool.name}", why, "forbidden")


def tightened(ruling: Ruling, tool: ToolSpec | None, occasion: Occasion) -> Ruling:
    """The ruling, or one that asks the person who is spoken with; refusals and questions stay as they are."""
    if tool is None or tool.own_ruling is None or ruling.verdict != "allow":
        return ruling
    try:
        why = tool.own_ruling(occasion)
    except Exception as error:
        log.exception("own_ruling_failed", tool=tool.name)
        why = f"Whether it may run by itself could not be found out ({type(error).__name__}: {error})."
    if why is None:
        return ruling
    return replace(ruling, verdict="approve", rule="default", reason=why, risk="dangerous", deciders=("requester",))
