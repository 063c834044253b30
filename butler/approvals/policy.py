"""The policy: what code says about a call before any person is asked (A3); it executes nothing (A4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from butler.approvals.arguments import args_match
from butler.approvals.rules import (
    STRICTNESS,
    Rule,
    Unreachable,
    loose_rules,
    mistaken_args,
    mistaken_tools,
    unreachable_rules,
    useless_rules,
)
from butler.types import Risk, Ruling, ToolSpec, Verdict
from config.policy_file import PolicyFile, RuleDefinition
from config.problems import Problem

__all__ = ["Explanation", "Policy", "Unreachable", "args_match", "classify", "safe_classify"]

log = structlog.get_logger(__name__)

RISKS: Mapping[Verdict, Risk] = {"allow": "safe", "approve": "dangerous", "refuse": "forbidden"}
ENDS: Mapping[Verdict, str] = {
    "allow": "it runs without asking",
    "approve": "a person is asked first",
    "refuse": "it does not run",
}


@dataclass(frozen=True)
class Explanation:
    """A ruling, the rule that won (None: no rule matched) and every rule that matched, in file order."""

    ruling: Ruling
    winner: RuleDefinition | None
    matched: tuple[RuleDefinition, ...]


class Policy:
    """Compiled rules of a policy file."""

    def __init__(self, definition: PolicyFile | None = None) -> None:
        self.definition = definition or PolicyFile()
        self._rules = tuple(map(Rule.of, self.definition.rules))

    def explain(
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        own_verdict: Verdict | None,
        grant: tuple[str, str] | None = None,
    ) -> Explanation:
        """Rule on a call as `classify` does, and name the winning rule and all that matched."""
        matched = tuple(rule.definition for rule in self._rules if rule.matches(tool, args))
        if not matched:
            return Explanation(self._without_rule(tool, own_verdict, grant), None, ())
        # All that match count; the first of the strictest verdict names reason, deciders, expiry and risk.
        winner = max(matched, key=lambda rule: STRICTNESS[rule.verdict])
        ruling = Ruling(
            verdict=winner.verdict,
            rule=winner.name,
            reason=winner.reason or f"The policy rule {winner.name!r} says so.",
            risk=winner.risk or RISKS[winner.verdict],
            deciders=winner.deciders,
            expires_in=winner.expires_in,
            matched=tuple(rule.name for rule in matched),
            approvals_needed=winner.approvals_needed,
            escalate_after=winner.escalate_after,
            escalate_to=winner.escalate_to,
        )
        return Explanation(ruling, winner, matched)

    def named(self, tool: str) -> bool:
        """Tell whether any rule is about a tool, with whatever arguments."""
        return any(rule.tool(tool) for rule in self._rules)

    def singles_out(self, ruling: Ruling, tool: str) -> bool:
        """Tell whether a rule that matched is for this one tool by its name, not for all that a pattern fits."""
        return any(rule.tool == tool for rule in self.definition.rules if rule.name in ruling.matched)

    def unreachable_rules(self) -> tuple[Unreachable, ...]:
        """Name rules that certainly can't win; a rule that is not named may still never win in practice."""
        return unreachable_rules(self.definition.rules)

    def mistaken_tools(self, known: Iterable[str]) -> tuple[Problem, ...]:
        """Name rules for one plain tool name that no tool has, though a known tool has nearly that name."""
        return mistaken_tools(self.definition.rules, known)

    def mistaken_args(self, known: Iterable[ToolSpec]) -> tuple[Problem, ...]:
        """Name arguments of rules that no known tool of theirs can ever have: such a rule never matches."""
        return mistaken_args(self.definition.rules, known)

    def useless_rules(self, known: Iterable[str]) -> tuple[Unreachable | Problem, ...]:
        """Name rules that can't win as things stand: no known tool is theirs, or another rule always beats them."""
        return useless_rules(self.definition.rules, known)

    def loose_rules(self) -> tuple[Problem, ...]:
        """Name rules that allow more commands than they read like, or are easily walked round, and what to write."""
        return loose_rules(self.definition.rules)

    def _without_rule(self, tool: str, own: Verdict | None, grant: tuple[str, str] | None) -> Ruling:
        if grant is not None:
            return Ruling("allow", f"grant:{grant[0]}", grant[1], RISKS["allow"])
        verdict = own or self.definition.default
        whose = f"the own verdict of the tool {tool!r}" if own else "the default of policy.yml"
        reason = f"No policy rule is about this call; {whose} is {verdict}: {ENDS[verdict]}."
        return Ruling(verdict, "default", reason, RISKS[verdict])


def classify(
    policy: Policy,
    tool: str,
    args: Mapping[str, Any],
    *,
    own_verdict: Verdict | None,
    grant: tuple[str, str] | None = None,
) -> Ruling:
    """Give the verdict on one call: policy rules, then the grant, the tool's own verdict, the default.

    Args:
        own_verdict: the tool's own verdict; None when it has none.
        grant: id and reason of a standing grant that covers the call.
    """
    return policy.explain(tool, args, own_verdict=own_verdict, grant=grant).ruling


def safe_classify(
    policy: Policy,
    tool: str,
    args: Mapping[str, Any],
    *,
    own_verdict: Verdict | None,
    grant: tuple[str, str] | None = None,
) -> Ruling:
    """Classify; a classifier that raises gives approve with the failure as the reason, never allow (A3)."""
    try:
        return classify(policy, tool, args, own_verdict=own_verdict, grant=grant)
    except Exception as error:
        log.exception("classifier_failed", tool=tool)
        reason = f"The policy could not be evaluated ({type(error).__name__}: {error})."
        return Ruling("approve", "default", reason, RISKS["approve"])
