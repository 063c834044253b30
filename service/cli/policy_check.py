"""What `butler policy check` finds and how it prints it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from butler.approvals.policy import Policy
from butler.redact import Redactor
from butler.tools.built_in import SOURCE as BUILT_IN
from butler.tools.delegating import SOURCE as MAIDS
from service.cli.common import counted
from service.cli.plain import visible
from service.doctor import deciders
from service.mcp_names import known_with_brought
from service.policy_review import Review, review

if TYPE_CHECKING:
    from service.wiring import Configuration


@dataclass(frozen=True)
class Report:
    """Rules that can never win, what is hardly meant, what is worth knowing, and what would change."""

    counted: str
    never_win: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    review: Review | None

    def lines(self) -> Iterator[str]:
        """The report for a person, each finding on a line of its own."""
        yield from self.never_win
        yield from (f"warning: {warning}" for warning in self.warnings)
        yield from (f"note: {note}" for note in self.notes)
        if not self.never_win:
            yield f"{self.counted}; no rule is beaten by another one."
        if self.review is not None:
            yield visible(str(self.review))
            yield from (f"  {visible(str(change))}" for change in self.review.changes)

    def document(self) -> dict[str, Any]:
        """The report for a program."""
        found = self.review
        return {
            "never_win": list(self.never_win),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "actions": found
            and {
                "looked_at": found.looked_at,
                "changed": len(found.changes),
                "by_kind": found.by_kind,
                "other_rule": found.other_rule,
                "tool_gone": found.gone,
                "changes": [asdict(change) for change in found.changes],
            },
        }


def examine(read: Configuration, policy: Policy, actions: int, redactor: Redactor) -> Report:
    """Look at a policy beside the configured tools, the users, and the last recorded `actions`; 0: at none."""
    rules, path = policy.definition.rules, read.settings.database_path
    warnings = [*map(str, policy.loose_rules())]
    warnings += [finding.detail for finding in deciders(rules, path)]
    notes = [*_unnamed(read, policy)]
    found = None
    if actions and path.exists():
        try:
            found = review(path, actions, policy, read.tools, redactor)
        except sqlite3.Error as error:
            notes.append(f"the recorded actions in {path} can't be read: {error}")
    return Report(
        counted(replace(read, policy=policy)),
        tuple(map(str, policy.useless_rules(known_with_brought(read.tools.names(), rules, read.mcp)))),
        tuple(warnings),
        tuple(notes),
        found,
    )


def _unnamed(read: Configuration, policy: Policy) -> Iterator[str]:
    """Tools of tools.yml that no rule is about, and what happens to their calls."""
    for spec in read.tools.specs():
        if spec.governed and spec.source not in (MAIDS, BUILT_IN) and not policy.named(spec.name):
            whose = f"the default of policy.yml is {policy.definition.default}"
            if spec.verdict is not None:
                whose = f"its own verdict in tools.yml is {spec.verdict}"
            yield f"{spec.source}: {spec.name}: no rule is about this tool; {whose}"
