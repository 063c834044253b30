"""Approvals and grants as people read them in a terminal: whole, exact, every field on its own lines (A7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from textwrap import wrap

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from butler.canonical import fingerprint
from butler.types import Json
from service.cli.cards_of_maids import diff_lines, is_diff, style_of, told_lines
from service.cli.plain import exact_line, exact_lines, visible, visible_lines

Field = tuple[str, Sequence[str]]
MARGIN = 14
"""Where values begin; what is continued begins there too, so that no value can look like a field."""
WORDS = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "answered in its place"}
STYLE_OF_RISK = {"safe": "green", "dangerous": "bold red", "forbidden": "bold red", "cross_hub": "bold yellow"}


def console() -> Console:
    """Standard output; colours only on a terminal, and nothing cut or wrapped by rich itself."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def print_approval(out: Console, approval: Json, moment: datetime | None = None) -> None:
    """Print one approval, whole."""
    head = f"{visible(approval['code'] or approval['action_id'])}  {visible(approval['tool'])}"
    state = "" if approval["status"] == "pending" else f"  {visible(approval['status'])}"
    print_fields(out, head, approval_fields(approval, moment or datetime.now(UTC)), state)


def print_fields(out: Console, head: str, fields: Iterable[Field], state: str = "") -> None:
    """Print a heading with fields under it."""
    parts = [(f"{head}", "bold"), (f"{state}\n", "")] if head else []
    # In a pipe a line stays one line; on a terminal the terminal would continue it at the left edge.
    room = max(out.width - MARGIN - 1, 4) if out.is_terminal else None
    for label, lines in fields:
        parts += _field_parts(label, lines, room)
    if out.is_terminal:
        out.print(Text.assemble(*parts, end=""), soft_wrap=True)
    else:
        # Many cards are written to a pipe much faster without a layout for each.
        out.file.write("".join(text for text, _ in parts))


def _field_parts(label: str, lines: Sequence[str], room: int | None) -> list[tuple[str, str]]:
    style = STYLE_OF_RISK.get(lines[0], "") if label == "risk" else ""
    shown = f"  {label}".ljust(MARGIN)
    parts: list[tuple[str, str]] = []
    for line in lines:
        colour = style_of(line) if label == "diff" else style
        for piece in _pieces(line, room, at_words=label == "why") if room else [line]:
            parts += [(shown, "dim"), (f"{piece}\n", colour)]
            shown = " " * MARGIN
    return parts


def _pieces(line: str, room: int, *, at_words: bool) -> list[str]:
    """The line in pieces of at most `room` columns, nothing left out; prose is broken at spaces where it can be."""
    rows = wrap(line, room, replace_whitespace=False, expand_tabs=False, break_on_hyphens=False) if at_words else [line]
    return [piece for row in rows for piece in chop_cells(row, room)] or [""]


def approval_fields(approval: Json, moment: datetime) -> list[Field]:
    """The fields of an approval with labels, in the order in which a decider needs them."""
    args = approval["args"]
    fields: list[Field] = [("arguments", argument_lines(args))]
    if is_diff(approval["tool"], args):
        fields = [("arguments", told_lines(args)), ("diff", diff_lines(args["diff"]))]
    if is_masked(approval):
        fields.append(("masked", ["secret values are shown as ***; the call has the real ones"]))
    asked = f"{visible(approval['requested_by'] or 'unknown')}, {_when(approval['requested_at'], moment)}"
    fields += [
        ("asked by", [asked]),
        ("rule", [visible(approval["rule"] or "none")]),
        ("why", visible_lines(approval["reason"] or "no reason given")),
        ("risk", [visible(approval["risk"] or "unknown")]),
    ]
    if approval["status"] == "pending":
        fields.append(("expires", [_when(approval["expires_at"], moment) if approval["expires_at"] else "never"]))
        fields += _several_deciders(approval, moment)
    if approval["execution"] == "unknown":
        fields.append(("careful", ["Butler stopped while this ran: it may or may not have taken effect.",
                                   "approve repeats it, respond takes it as done, deny gives it up"]))  # fmt: skip
    elif approval["status"] != "pending":
        fields.append(("execution", [visible(approval["execution"])]))
    if approval["decision"]:
        fields.append(("decided", decision_lines(approval["decision"], approval["args"])))
    fields += [
        ("thread", [visible(approval["thread_id"])]),
        ("action", [visible(approval["action_id"])]),
        ("fingerprint", [visible(approval["fingerprint"])]),
    ]
    if approval["status"] == "pending":
        fields.append(("answer", answer_lines(approval)))
    return fields


def _several_deciders(approval: Json, moment: datetime) -> list[Field]:
    fields: list[Field] = []
    if (needed := approval.get("approvals_needed") or 1) > 1:
        by = ", ".join(visible(str(one["by"])) for one in approval.get("approved_by") or ()) or "nobody yet"
        fields.append(("needs", [f"{needed} people; approved so far by {by}"]))
    for name, label in (("escalates_at", "escalates"), ("escalated_at", "escalated")):
        if approval.get(name):
            fields.append((label, [_when(approval[name], moment)]))
    return fields


def argument_lines(args: Json) -> list[str]:
    """Every argument, exact: JSON values, unseen characters as escapes."""
    found: list[str] = []
    for name, value in args.items():
        lead = f"{visible(name) if name.isidentifier() else exact_line(name)} = "
        first, *rest = exact_lines(value)
        found += [lead + first, *(" " * len(lead) + line for line in rest)]
    return found or ["none"]


def decision_lines(decision: Json, args: Json) -> list[str]:
    """Who decided what, when, through what, and why; the arguments where they are not those that were proposed."""
    by = visible(str(decision.get("by") or "Butler itself"))
    kind = str(decision.get("decision"))
    lines = [f"{visible(WORDS.get(kind, kind))} by {by} at {visible(str(decision.get('at')))}"
             + (f" via {visible(str(decision['via']))}" if decision.get("via") else "")]  # fmt: skip
    if decision.get("reason"):
        first, *rest = visible_lines(str(decision["reason"]))
        lines += [f"reason: {first}", *rest]
    if decision.get("args") is not None and decision["args"] != args:
        lines += ["with other arguments:", *argument_lines(decision["args"])]
    return lines


def answer_lines(approval: Json) -> list[str]:
    """The commands that answer it; for those who may not decide, whom it waits for."""
    if approval.get("waits_for"):
        return [f"waits for {', '.join(map(visible, approval['waits_for']))}, not for you"]
    name = visible(approval["code"] or approval["action_id"])
    ways = {
        "approve": f"butler approve {name}",
        "edit": f"butler approve {name} --edit",
        "reject": f'butler deny {name} --reason "…"',
        "respond": f'butler respond {name} "…"',
    }
    return [way for kind, way in ways.items() if kind in approval["allowed_decisions"]]


def is_masked(approval: Json) -> bool:
    """Whether the arguments shown are not the real ones: the fingerprint is that of the real ones."""
    return bool(fingerprint(approval["tool"], approval["args"]) != approval["fingerprint"])


def _when(stamp: str, moment: datetime) -> str:
    """A time and how far it is away."""
    shown = visible(stamp)
    try:
        seconds = (datetime.fromisoformat(stamp.replace("Z", "+00:00")) - moment).total_seconds()
    except (TypeError, ValueError):
        return shown
    far = span(abs(seconds))
    return f"in {far} ({shown})" if seconds > 0 else f"{far} ago ({shown})"


def span(seconds: float) -> str:
    """A length of time in words, rounded down."""
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {word}"
    return f"{int(seconds)} s"
