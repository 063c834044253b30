"""Pending actions as an assistant's message: whole, exact, and with what to type (A7).

The arguments come from a model, so they stand in a code block that nothing in them can close.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from butler.types import Json
from butler.unseen import is_unseen

ANSWERS = {
    "approve": "`/approve {code}`",
    "reject": "`/deny {code} reason`",
    "edit": "`/edit {code} key=value`",
    "respond": "`/respond {code} text`",
}


def parked_text(approvals: Sequence[Json]) -> str:
    """What a turn waits for. Each approval has `waits_for` (see `butler.approvals.show.for_whom`)."""
    return "\n\n".join(["I need a decision before I go on.", *(_card(approval) for approval in approvals)])


def queued_text(approvals: Sequence[Json]) -> str:
    """What a message waits for that came while its thread was parked."""
    if not approvals:
        return "Your message is kept and will be answered as soon as what runs before it is done."
    lead = "Your message is kept. It will be the next turn once this is decided:"
    return "\n\n".join([lead, *(_card(approval) for approval in approvals)])


def _card(approval: Json) -> str:
    args = visible(json.dumps(approval["args"], indent=2, ensure_ascii=False))
    # One tick more than the longest run inside, so that the block ends where it should.
    fence = "`" * (max([2, *(len(run) for run in re.findall(r"`+", args))]) + 1)
    lines = [
        f"**{_line(approval['code'])}**: `{_name(approval['tool'])}` ({_line(approval['risk'])})",
        f"{fence}json\n{args}\n{fence}",
        f"Why: {_line(approval['reason'] or 'no reason given')}",
        f"Rule: {_line(approval['rule'] or 'none')}",
    ]
    if approval["execution"] == "unknown":
        lines.append("Careful: Butler stopped while this ran, so it may or may not have taken effect.")
    if approval["expires_at"]:
        lines.append(f"Expires: {approval['expires_at']}")
    lines.append(_answers(approval))
    return "\n\n".join(lines)


def _answers(approval: Json) -> str:
    if approval.get("waits_for"):
        return f"This waits for {', '.join(map(_line, approval['waits_for']))}, not for you."
    ways = [text for kind, text in ANSWERS.items() if kind in approval["allowed_decisions"]]
    return "Answer with " + " or ".join(way.format(code=approval["code"]) for way in ways) + "."


def visible(text: str) -> str:
    """Characters that can't be seen, or that reorder others, as escapes."""
    return "".join(f"\\u{ord(char):04x}" if is_unseen(char) and char != "\n" else char for char in text)


def _line(value: object) -> str:
    return visible(" ".join(str(value).split()))


def _name(tool: str) -> str:
    return _line(tool).replace("`", "'")
