"""The policy: what code says about a call before any person is asked (A3); it executes nothing (A4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from butler.argtext import text_of
from butler.globs import Matcher, compile_glob, covers
from butler.types import Risk, Ruling, ToolSpec, Verdict
from config.policy_file import PolicyFile, RuleDefinition
from config.problems import Problem, did_you_mean, nearest

log = structlog.get_logger(__name__)

STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "approve": 1, "refuse": 2}
RISKS: Mapping[Verdict, Risk] = {"allow": "safe", "approve": "dangerous", "refuse": "forbidden"}


@dataclass(frozen=True)
class Rule:
    """One compiled rule."""

    definition: RuleDefinition
    tool: Matcher
    args: tuple[tuple[str, Matcher], ...]

    def matches(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Tell whether the rule speaks about a call; a missing argument doesn't match."""
        return self.tool(tool) and all(name in args and matcher(text_of(args[name])) for name, matcher in self.args)


def args_match(globs: Mapping[str, str], args: Mapping[str, Any]) -> bool:
    """Tell whether every glob matches the text of its argument; a missing argument doesn't match."""
    return all(name in args and compile_glob(glob)(text_of(args[name])) for name, glob in globs.items())


@dataclass(frozen=True)
class Explanation:
    """A ruling, the rule that won (None: no rule matched) and every rule that matched, in file order."""

    ruling: Ruling
    winner: RuleDefinition | None
    matched: tuple[RuleDefinition, ...]


@dataclass(frozen=True)
class Unreachable:
    """A rule that can never win, because `by` always matches too and beats it."""

    rule: RuleDefinition
    by: RuleDefinition

    def __str__(self) -> str:
        return (
            f"{self.rule.source}: {self.rule.name}: can never win: {self.by.name!r} ({self.by.source}, "
            f"{self.by.verdict}) matches whenever it matches"
        )


class Policy:
    """Compiled rules of a policy file."""

    def __init__(self, definition: PolicyFile | None = None) -> None:
        self.definition = definition or PolicyFile()
        self._rules = tuple(
            Rule(
                rule,
                compile_glob(rule.tool),
                tuple((name, compile_glob(glob)) for name, glob in rule.args.items()),
            )
            for rule in self.definition.rules
        )

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

    def unreachable_rules(self) -> tuple[Unreachable, ...]:
        """Name rules that certainly can't win; a rule that is not named may still never win in practice."""
        rules = self.definition.rules
        found = []
        for index, rule in enumerate(rules):
            for other_index, other in enumerate(rules):
                gap = STRICTNESS[other.verdict] - STRICTNESS[rule.verdict]
                if (gap > 0 or (gap == 0 and other_index < index)) and _covers(other, rule):
                    found.append(Unreachable(rule, other))
                    break
        return tuple(found)

    def mistaken_tools(self, known: Iterable[str]) -> tuple[Problem, ...]:
        """Name rules for one plain tool name that no tool has, though a known tool has nearly that name."""
        names = tuple(known)
        problems = []
        for rule in self.definition.rules:
            plain = not any(char in rule.tool for char in "*?[")
            if plain and rule.tool not in names and nearest(rule.tool, names):
                guess = did_you_mean(rule.tool, names)
                problems.append(Problem(*rule.place("tool"), "tool", f"there is no tool {rule.tool!r}{guess}"))
        return tuple(problems)

    def mistaken_args(self, known: Iterable[ToolSpec]) -> tuple[Problem, ...]:
        """Name arguments of rules that no known tool of theirs can ever have: such a rule never matches."""
        specs = tuple(known)
        problems = []
        for rule in self.definition.rules:
            matches = compile_glob(rule.tool)
            schemas = [spec.input_schema for spec in specs if matches(spec.name)]
            if not schemas or any(map(_is_open, schemas)):
                continue
            names = sorted({name for schema in schemas for name in schema.get("properties", {})})
            for name in rule.args:
                if name not in names:
                    message = f"no tool that {rule.tool!r} matches has this argument{did_you_mean(name, names)}"
                    problems.append(Problem(*rule.place(f"args.{name}"), f"args.{name}", message))
        return tuple(problems)

    def useless_rules(self, known: Iterable[str]) -> tuple[Unreachable | Problem, ...]:
        """Name rules that can't win as things stand: no known tool is theirs, or another rule always beats them."""
        names = tuple(known)
        found: list[Unreachable | Problem] = list(self.unreachable_rules())
        for rule in self.definition.rules:
            if not any(map(compile_glob(rule.tool), names)):
                message = f"can never win: no tool matches {rule.tool!r}{did_you_mean(rule.tool, names)}"
                found.append(Problem(*rule.place("tool"), rule.name, message))
        return tuple(found)

    def _without_rule(self, tool: str, own: Verdict | None, grant: tuple[str, str] | None) -> Ruling:
        if grant is not None:
            return Ruling("allow", f"grant:{grant[0]}", grant[1], RISKS["allow"])
        verdict = own or self.definition.default
        whose = f"The tool {tool!r}" if own else "The default of the policy"
        ends = {
            "allow": "allows this call.",
            "approve": "asks a person before this call.",
            "refuse": "refuses this call.",
        }
        return Ruling(verdict, "default", f"{whose} {ends[verdict]}", RISKS[verdict])


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


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether a tool takes arguments that its schema doesn't name."""
    return schema.get("additionalProperties") is not False or "patternProperties" in schema


def _covers(wide: RuleDefinition, narrow: RuleDefinition) -> bool:
    return covers(wide.tool, narrow.tool) and all(
        name in narrow.args and covers(glob, narrow.args[name]) for name, glob in wide.args.items()
    )
