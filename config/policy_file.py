"""policy.yml: rules in file order, and the verdict for tools that have none of their own (A3, A10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator
from pydantic_core import PydanticKnownError

from config.problems import ConfigError
from config.strict import Checker, Entry
from config.verdicts import Risk, Verdict, WrittenVerdict, meant
from config.yaml_source import Loc, read_yaml

Text = Annotated[str, Field(min_length=1)]
REST = "**"
ROLES = frozenset({"admin", "member"})
"""Whoever holds them may decide, where a rule names them."""


def _arg_glob(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise PydanticKnownError("string_type")
    if not value:
        raise ValueError(f"an empty list matches nothing; write one glob per word, such as [git, status, {REST!r}]")
    for place, item in enumerate(value, 1):
        if not isinstance(item, str):
            raise ValueError(f"item {place} of the list: expected text, got {type(item).__name__}; put it in quotes")
        if item == REST and place < len(value):
            raise ValueError(f"item {place} of the list: {REST!r} means any further words, so it must be the last item")
    return list(value)


ArgGlob = Annotated[
    str | list[str],
    PlainValidator(_arg_glob),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
            "description": "A glob on the argument's text, or a list: one glob per word of a command, "
            "'**' last for more",
        }
    ),
]


class RuleEntry(Entry):
    """One rule of the file."""

    name: Text = Field(description="Unique; shown to whoever decides and written to the audit")
    tool: Text = Field(description="Glob on the tool's name, such as 'delete_*' or 'server__*'")
    args: dict[str, ArgGlob] = Field(
        {}, description="For named arguments: a glob on the text, or a list of globs on the words; all must match"
    )
    verdict: WrittenVerdict
    reason: Text | None = Field(None, description="Why; shown to the person and the model")
    risk: Risk | None = Field(None, description="Default: safe, dangerous or forbidden by the verdict")
    deciders: Annotated[list[Text], Field(min_length=1)] | None = Field(
        None, description="Roles, user names or 'requester' who may decide"
    )
    expires_in: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        None, description="Seconds until an undecided request is refused"
    )
    approvals_needed: Annotated[int, Field(ge=1, le=10)] = Field(
        1, description="How many different people have to approve"
    )
    escalate_after: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        None, description="Seconds until `escalate_to` may decide an undecided request too"
    )
    escalate_to: Annotated[list[Text], Field(min_length=1)] | None = Field(
        None, description="Further deciders after `escalate_after`; default: admin"
    )

    @field_validator("name")
    @classmethod
    def _name_of_its_own(cls, name: str) -> str:
        if name == "default" or name.startswith("grant:"):
            raise ValueError(f"{name!r} is what the butler calls decisions without a rule; choose another name")
        if not name.isprintable():
            raise ValueError(f"{name[:80]!r} has a line break or another character that can't be seen")
        return name

    @field_validator("expires_in", "escalate_after", mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f"expected a number of seconds, such as 3600 for an hour, got {value[:80]!r}")
        return value

    @field_validator("deciders", "escalate_to")
    @classmethod
    def _people(cls, deciders: list[str] | None) -> list[str] | None:
        if deciders and "agent" in deciders:
            raise ValueError("an 'agent' can never decide; name people, their roles or 'requester'")
        return deciders


class PolicyDocument(Entry):
    """The whole file, for the published schema."""

    default: WrittenVerdict = Field("approve", description="For tools without a verdict of their own")
    rules: list[RuleEntry] = Field([])


class _Default(Entry):
    default: WrittenVerdict = "approve"


@dataclass(frozen=True)
class RuleDefinition:
    """A checked rule; `source` is ``FILE:LINE``, `lines` has the lines of its keys."""

    name: str
    tool: str
    args: Mapping[str, str | tuple[str, ...]]
    verdict: Verdict
    reason: str | None
    risk: Risk | None
    deciders: tuple[str, ...] | None
    expires_in: float | None
    source: str
    lines: Mapping[str, int] = field(default_factory=dict)
    approvals_needed: int = 1
    escalate_after: float | None = None
    escalate_to: tuple[str, ...] = ()

    def place(self, key: str) -> tuple[str, int]:
        """File and line of one of the rule's keys."""
        file, _, line = self.source.rpartition(":")
        return file, self.lines.get(key, int(line))


@dataclass(frozen=True)
class PolicyFile:
    """A checked policy file."""

    default: Verdict = "approve"
    rules: tuple[RuleDefinition, ...] = ()


def load_policy_file(path: Path, *, cwd: Path | None = None) -> PolicyFile:
    """Read policy.yml; an absent file has no rules and asks for everything.

    Raises:
        ConfigError: one problem per fault.
    """
    source = read_yaml(path, cwd)
    checker = Checker(source)
    seen: dict[str, Loc] = {}
    rules = []
    for loc, raw in checker.entries("rules", PolicyDocument):
        entry = checker.model(RuleEntry, raw, loc)
        name = raw.get("name")
        if isinstance(name, str) and name in seen:
            first = checker.place((*seen[name], "name"))
            checker.fault((*loc, "name"), f"the rule {name!r} is already defined at {first}")
        elif isinstance(name, str):
            seen[name] = loc
        if entry is not None:
            for key, message in _contradictions(entry):
                checker.fault((*loc, key), message)
            places = {"tool": (*loc, "tool"), **{f"args.{name}": (*loc, "args", name) for name in entry.args}}
            lines = {key: source.line(place) for key, place in places.items()}
            rules.append(_definition(entry, checker.place((*loc, "name")), lines))
    given = source.value if isinstance(source.value, dict) else {}
    default = checker.model(_Default, {key: value for key, value in given.items() if key == "default"})
    if checker.problems or default is None:
        raise ConfigError(sorted(checker.problems, key=lambda problem: problem.line))
    return PolicyFile(meant(default.default), tuple(rules))


def _contradictions(entry: RuleEntry) -> Iterator[tuple[str, str]]:
    """What the keys about people and time say that can't be."""
    verdict = meant(entry.verdict)
    asking = ("approvals_needed", "escalate_after", "escalate_to")
    if verdict != "approve":
        for key in asking:
            if key in entry.model_fields_set:
                yield key, f"has a meaning only with verdict 'approve'; this rule's is {verdict!r}"
        return
    if entry.escalate_to is not None and entry.escalate_after is None:
        yield "escalate_to", "needs escalate_after, the seconds until they may decide too"
    if entry.escalate_after and entry.expires_in and entry.escalate_after >= entry.expires_in:
        yield (
            "escalate_after",
            f"must be less than expires_in ({entry.expires_in:g}), or the request is over before it escalates",
        )
    possible = {*(entry.deciders or ["admin"]), *((entry.escalate_to or ["admin"]) if entry.escalate_after else [])}
    # A role may be held by any number of people.
    if possible.isdisjoint(ROLES) and len(possible) < entry.approvals_needed:
        who = f"{len(possible)} of them" if len(possible) > 1 else "one"
        yield (
            "approvals_needed",
            f"{entry.approvals_needed} different people have to approve, but deciders names only {who}; "
            "name more people, or a role such as admin",
        )


def _definition(entry: RuleEntry, source: str, lines: Mapping[str, int]) -> RuleDefinition:
    return RuleDefinition(
        name=entry.name,
        tool=entry.tool,
        args={name: glob if isinstance(glob, str) else tuple(glob) for name, glob in entry.args.items()},
        verdict=meant(entry.verdict),
        reason=entry.reason,
        risk=entry.risk,
        deciders=tuple(entry.deciders) if entry.deciders else None,
        expires_in=entry.expires_in,
        source=source,
        lines=lines,
        approvals_needed=entry.approvals_needed,
        escalate_after=entry.escalate_after,
        escalate_to=tuple(entry.escalate_to or ("admin",)) if entry.escalate_after else (),
    )
