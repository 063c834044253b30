"""Where a tool that may run by itself asks after all, for a reason that lies in the talk (A3, C6)."""

from __future__ import annotations

from dataclasses import replace

import structlog

from butler.types import Occasion, Ruling, ToolSpec

log = structlog.get_logger(__name__)


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
