"""Compiled rules of policy.yml, and what can be told about them without any call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from butler.approvals.arguments import REST, ArgGlob, ArgMatcher, covers_argument, is_command, matcher_of
from butler.approvals.launchers import FEEDERS, LAUNCHERS, name_of
from butler.globs import Matcher, compile_glob, covers, is_exact
from butler.types import ToolSpec, Verdict
from config.policy_file import RuleDefinition
from config.problems import Problem, did_you_mean, nearest

STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "approve": 1, "refuse": 2}


@dataclass(frozen=True)
class Rule:
    """One compiled rule."""

    definition: RuleDefinition
    tool: Matcher
    args: tuple[tuple[str, ArgMatcher], ...]

    @classmethod
    def of(cls, definition: RuleDefinition) -> Rule:
        """Compile a rule; one that allows reads commands strictly."""
        strict = definition.verdict == "allow"
        args = tuple((name, matcher_of(name, glob, strict=strict)) for name, glob in definition.args.items())
        return cls(definition, compile_glob(definition.tool), args)

    def matches(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Tell whether the rule speaks about a call; a missing argument doesn't match."""
        return self.tool(tool) and all(name in args and matches(args[name]) for name, matches in self.args)


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


def unreachable_rules(rules: Sequence[RuleDefinition]) -> tuple[Unreachable, ...]:
    """Name rules that certainly can't win; a rule that is not named may still never win in practice."""
    found = []
    for index, rule in enumerate(rules):
        for other_index, other in enumerate(rules):
            gap = STRICTNESS[other.verdict] - STRICTNESS[rule.verdict]
            if (gap > 0 or (gap == 0 and other_index < index)) and _covers(other, rule):
                found.append(Unreachable(rule, other))
                break
    return tuple(found)


def mistaken_tools(rules: Iterable[RuleDefinition], known: Iterable[str]) -> tuple[Problem, ...]:
    """Name rules for one plain tool name that no tool has, though a known tool has nearly that name."""
    names = tuple(known)
    problems = []
    for rule in rules:
        plain = not any(char in rule.tool for char in "*?[")
        if plain and rule.tool not in names and nearest(rule.tool, names):
            guess = did_you_mean(rule.tool, names)
            problems.append(Problem(*rule.place("tool"), "tool", f"there is no tool {rule.tool!r}{guess}"))
    return tuple(problems)


def mistaken_args(rules: Iterable[RuleDefinition], known: Iterable[ToolSpec]) -> tuple[Problem, ...]:
    """Name arguments of rules that no known tool of theirs can ever have: such a rule never matches."""
    specs = tuple(known)
    problems = []
    for rule in rules:
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


def useless_rules(rules: Sequence[RuleDefinition], known: Iterable[str]) -> tuple[Unreachable | Problem, ...]:
    """Name rules that can't win as things stand: no known tool is theirs, or another rule always beats them."""
    names = tuple(known)
    found: list[Unreachable | Problem] = list(unreachable_rules(rules))
    for rule in rules:
        if not any(map(compile_glob(rule.tool), names)):
            message = f"can never win: no tool matches {rule.tool!r}{did_you_mean(rule.tool, names)}"
            found.append(Problem(*rule.place("tool"), rule.name, message))
    return tuple(found)


def loose_rules(rules: Iterable[RuleDefinition]) -> tuple[Problem, ...]:
    """Name rules that allow more commands than they read like, or are easily walked round, and what to write."""
    problems = []
    for rule in rules:
        for name, glob in rule.args.items():
            message = (_looseness if rule.verdict == "allow" else _tightness)(name, glob)
            if message:
                problems.append(Problem(*rule.place(f"args.{name}"), f"args.{name}", message))
    return tuple(problems)


def _looseness(argument: str, glob: ArgGlob) -> str | None:
    if isinstance(glob, str):
        if not is_command(argument) or is_exact(glob):
            return None
        advice = f"name the words instead: {argument}: {as_list(glob)}"
        return f"the wildcard in {glob!r} also takes the rest of a word and any further words; {advice}"
    if glob[-1] != REST:
        return None
    if not glob[0].strip("*"):
        return f"{glob[0]!r} is any program, and any further words may follow; name the program"
    if name_of(glob[0]) in LAUNCHERS | FEEDERS:
        return f"{glob[0]!r} starts any other program, and any further words may follow; name those that may"
    return None


def _tightness(argument: str, glob: ArgGlob) -> str | None:
    if not isinstance(glob, str) or not is_command(argument) or not glob.strip("*"):
        return None
    advice = f"name the words instead: {argument}: {as_list(glob.lstrip('*'))}"
    return f"the text {glob!r} is not found where the same command is written in another way; {advice}"


def as_list(glob: str) -> str:
    """The list of globs, as YAML, that says of a command what a glob on its text was meant to say."""
    words = glob.split()
    if words and words[-1].strip("*") == "":
        words[-1] = "**"
    elif words and words[-1].endswith("*"):
        words = [*words[:-1], words[-1].rstrip("*"), "**"]
    quoted = [word if word.replace("-", "").replace("_", "").isalnum() and word[0].isalpha() else f'"{word}"'
              for word in words]  # fmt: skip
    return f"[{', '.join(quoted)}]"


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether a tool takes arguments that its schema doesn't name."""
    return schema.get("additionalProperties") is not False or "patternProperties" in schema


def _covers(wide: RuleDefinition, narrow: RuleDefinition) -> bool:
    strict, narrow_strict = wide.verdict == "allow", narrow.verdict == "allow"
    return covers(wide.tool, narrow.tool) and all(
        name in narrow.args
        and covers_argument(name, glob, narrow.args[name], wide_strict=strict, narrow_strict=narrow_strict)
        for name, glob in wide.args.items()
    )
