"""What a policy would say about the actions recorded so far; reads the database beside a running server."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from butler.approvals.own_ruling import own_verdict
from butler.approvals.policy import Policy, safe_classify
from butler.approvals.show import shown_args, title_of
from butler.redact import Redactor
from butler.tools.registry import ToolRegistry
from butler.types import Json

# Rows are in the order in which they were recorded; an index on time alone doesn't exist.
LAST_ACTIONS = """
    SELECT action_id, requested_at, tool, args, title, verdict, rule FROM actions ORDER BY rowid DESC LIMIT ?
"""


@dataclass(frozen=True)
class Change:
    """One recorded action on which the policy would now rule differently; its title shows no secret."""

    action_id: str
    requested_at: str
    tool: str
    title: str
    old_verdict: str
    old_rule: str
    new_verdict: str
    new_rule: str

    @property
    def kind(self) -> str:
        """From which verdict to which."""
        return f"{self.old_verdict}→{self.new_verdict}"

    def __str__(self) -> str:
        old, new = f"{self.old_verdict} ({self.old_rule})", f"{self.new_verdict} ({self.new_rule})"
        return f"{self.requested_at} {self.title}: {old} → {new}"


@dataclass(frozen=True)
class Review:
    """The recorded actions under a policy: newest first what changes, and how many only change their rule."""

    looked_at: int
    changes: tuple[Change, ...]
    other_rule: int
    gone: int

    @property
    def by_kind(self) -> dict[str, int]:
        """How many changes of each kind, most first."""
        return dict(Counter(change.kind for change in self.changes).most_common())

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.by_kind.items())
        text = f"{self.looked_at} recorded action(s) looked at, {len(self.changes)} would change"
        text += f": {kinds}" if kinds else ""
        text += f"; {self.other_rule} would keep the verdict under another rule" if self.other_rule else ""
        return text + (f"; {self.gone} left out, their tool is no longer declared" if self.gone else "")


def review(path: Path, last: int, policy: Policy, tools: ToolRegistry, redactor: Redactor) -> Review:
    """Rule on the `last` recorded actions again; a grant that allowed one is taken to stand still.

    Raises:
        sqlite3.Error: the database can't be read.
    """
    changes: list[Change] = []
    other_rule = gone = 0
    rows = _read(path, LAST_ACTIONS, last)
    for action_id, requested_at, tool, stored, title, verdict, rule in rows:
        spec = tools.get(tool)
        if spec is None:
            gone += 1
            continue
        args: Json = json.loads(stored)
        kind, _, grant_id = rule.partition(":")
        grant = (grant_id, "granted earlier") if kind == "grant" else None
        ruling = safe_classify(policy, tool, args, own_verdict=own_verdict(spec, args), grant=grant)
        asked_by_itself = spec.own_ruling is not None and (verdict, rule) == ("approve", "default")
        if asked_by_itself and ruling.verdict == "allow" and not policy.singles_out(ruling, tool):
            continue  # It asked for a reason that lay in the talk of then.
        if ruling.verdict != verdict:
            masked = shown_args(tool, args, tools, redactor)
            shown = redactor.text(title if masked == args else title_of(tool, masked))
            changes.append(Change(action_id, requested_at, tool, shown, verdict, rule, ruling.verdict, ruling.rule))
        elif ruling.rule != rule:
            other_rule += 1
    return Review(len(rows), tuple(changes), other_rule, gone)


def role_of(path: Path, name: str) -> str | None:
    """The role of a user; None where there is no such user."""
    if not path.exists():
        return None
    rows = _read(path, "SELECT role FROM users WHERE name = ?", name)
    return str(rows[0][0]) if rows else None


def _read(path: Path, query: str, *values: object) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(query, values).fetchall()
