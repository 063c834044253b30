"""What models, tools and agents say, made harmless for a terminal, in lines and widths (A7)."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells

from butler.types import Json
from butler.unseen import is_unseen
from service.cli.plain import exact_line, visible

_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""They print as nothing but join letters and pictures; they can't move or hide anything else."""
TAB = "    "


def harmless(text: str) -> str:
    """The text with its lines and tabs; controls, direction marks and invisible characters are shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char == "\n" or char in _JOINERS:
        return char
    if char == "\t":
        return TAB
    if char == "\r":
        return ""
    # Pictures that are newer than the tables of this Python are no danger.
    if "\U0001f000" <= char <= "\U0001faff":
        return char
    return visible(char) if is_unseen(char) else char


def widest(char: str) -> int:
    """The most columns that a terminal may give a character, joined to others or not."""
    return 1 if char in "\ufe0f" else cell_len(char)


def clipped(text: str, width: int) -> str:
    """A text on one line of so many columns."""
    text = " ".join(text.split())
    if cell_len(text) <= width:
        return text
    return (chop_cells(text, max(width - 1, 1)) or [""])[0] + "…"


def tool_line(data: Json) -> str | None:
    """A `tool` event in words; None where the approval itself will tell it."""
    name, phase = visible(str(data.get("tool"))), data.get("phase")
    args = ", ".join(f"{visible(key)}={exact_line(value)}" for key, value in (data.get("args") or {}).items())
    result = visible(str(data["result"]).strip()) if data.get("result") is not None else ""
    match phase:
        case "proposed" if data.get("verdict") == "refuse":
            return f"{name}({args}) is refused"
        case "started":
            return f"{name}({args}) runs"
        case "done":
            return f"{name}: {result or 'done'}"
        case "failed":
            return f"{name} failed: {result or 'no reason given'}"
        case _:
            return None


def approval_line(data: Json) -> str:
    """An `approval` event in words."""
    return visible(f"{data.get('code')} waits for a decision: {data.get('title')}")


def maid_line(data: Json) -> str:
    """A `maid` event in words."""
    attempt = f", attempt {data['attempt']}" if data.get("attempt") else ""
    detail = data.get("detail")
    said = f": {detail if isinstance(detail, str) else exact_line(detail)}" if detail else ""
    return visible(f"maid {data.get('maid_id') or '?'}{attempt}: {data.get('phase')}{said}")
