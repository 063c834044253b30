"""Patterns that suit a call: this very call, then one step wider where a wider step means something (E3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from butler.approvals.arguments import is_command
from butler.approvals.commandline import plain_words
from butler.approvals.grants import Patterns
from butler.approvals.wishes import exact, literal
from butler.types import Json

MOST_PROPOSALS = 8
MOST_CHARACTERS = 1000
"""Longer texts are content, not places."""

_PATH = re.compile(r"[^\s\"'`;|&$<>*?\[\]{}()]+/[^\s\"'`;|&$<>*?\[\]{}()]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True)
class Proposal:
    """One grant to choose: what it says in words, and its patterns."""

    label: str
    args: Patterns
    closed: bool


def proposals_for(tool: str, args: Json, secret: set[str]) -> list[Proposal]:
    """Proposals for a call, the narrowest first; never free text as a star, never a secret argument."""
    seen = {name: value for name, value in args.items() if name not in secret}
    if secret and not seen:
        return []
    closed = not secret
    this = exact(seen)
    said = "exactly this call" if closed else f"this call of {tool} with any {', '.join(sorted(secret))}"
    found = [Proposal(said, this, closed)]
    wider = {name: step for name, value in seen.items() if (step := _wider(name, value)) is not None}
    for name, (pattern, words) in wider.items():
        found.append(Proposal(f"{name}: {words}", this | {name: pattern}, closed))
    if len(wider) > 1:
        together = "; ".join(f"{name}: {words}" for name, (_, words) in wider.items())
        found.append(Proposal(together, this | {name: pattern for name, (pattern, _) in wider.items()}, closed))
    return found[:MOST_PROPOSALS]


def _wider(name: str, value: Any) -> tuple[Any, str] | None:
    """The next wider pattern of an argument with its words; None where there is no sensible one."""
    if isinstance(value, list):
        return _same_command(value)
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        return None
    if is_command(name):
        return _same_command(plain_words(value) or ())
    return _same_host(value) or _same_folder(value)


def _same_host(text: str) -> tuple[str, str] | None:
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    plain = url.scheme in ("http", "https") and url.netloc and "@" not in url.netloc and "\\" not in url.netloc
    if not plain or not text.startswith(f"{url.scheme}://{url.netloc}/"):
        return None
    return f"{url.scheme}://{literal(url.netloc)}/*", f"anything at {url.netloc}"


def _same_folder(text: str) -> tuple[str, str] | None:
    if "://" in text or text.startswith("-") or not _PATH.fullmatch(text):
        return None
    folder = text.rstrip("/").rpartition("/")[0]
    if not folder.strip("./~") or ".." in folder.split("/"):
        return None
    return f"{literal(folder)}/*", f"anything in {folder}"


def _same_command(items: Sequence[Any]) -> tuple[list[str], str] | None:
    """The same program with the same first word after it; a program alone would be too much."""
    if len(items) < 2 or not all(isinstance(item, str) for item in items):
        return None
    program, sub = items[:2]
    if not _SUBCOMMAND.fullmatch(sub):
        return None
    return [literal(program), literal(sub), "**"], f"{program} {sub} with any arguments"
