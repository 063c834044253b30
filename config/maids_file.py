"""maid_registry.yml: the units that work can be given to, and how their work is checked (D2, D8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from config.maid_commands import GOOSE_COMMAND, Fault, beside, template_faults
from config.maid_entries import MaidEntry, MaidsDocument, RestEntry
from config.maid_profile import Allowed, profile_faults, profile_of
from config.maid_types import Endpoint, Limits, MaidDefinition, MaidRegistryFile
from config.problems import ConfigError, Problem
from config.strict import Checker
from config.verdicts import meant
from config.yaml_source import Loc, read_yaml


def load_maids_file(path: Path, *, cwd: Path | None = None) -> MaidRegistryFile:
    """Read maid_registry.yml; an absent file has no maids. Project roots need not exist.

    Raises:
        ConfigError: one problem per fault.
    """
    registry, problems = read_maids_file(path, cwd=cwd)
    if problems:
        raise ConfigError(problems)
    return registry


def read_maids_file(path: Path, *, cwd: Path | None = None) -> tuple[MaidRegistryFile, tuple[Problem, ...]]:
    """The maids without any fault of their own, and every fault in the order of the lines.

    Raises:
        ConfigError: the file can't be read at all.
    """
    source = read_yaml(path, cwd)
    checker = Checker(source)
    folder = path.absolute().parent
    top = source.value if isinstance(source.value, dict) else {}
    rest = checker.model(RestEntry, {key: top[key] for key in RestEntry.model_fields if key in top})
    roots = tuple(_roots(checker, rest.project_roots)) if rest else ()
    commands = tuple(beside(command, folder) for command in rest.allowed_commands) if rest else ()
    allowed = Allowed(commands, tuple(rest.allowed_hosts), folder) if rest else None
    seen: dict[str, Loc] = {}
    maids = []
    for loc, raw in checker.entries("maids", MaidsDocument):
        before = len(checker.problems)
        entry = checker.model(MaidEntry, raw, loc)
        maid_id = raw.get("maid_id")
        if isinstance(maid_id, str) and maid_id in seen:
            first = checker.place((*seen[maid_id], "maid_id"))
            checker.fault((*loc, "maid_id"), f"the maid {maid_id!r} is already defined at {first}")
        elif isinstance(maid_id, str):
            seen[maid_id] = loc
        if entry is not None:
            for place, message in _contradictions(entry, allowed):
                checker.fault((*loc, *place), message)
            if len(checker.problems) == before:
                maids.append(_definition(entry, raw, checker.place((*loc, "maid_id")), folder))
    registry = MaidRegistryFile(
        tuple(maids), commands, tuple(allowed.hosts) if allowed else (), roots,
        most_at_once=rest.most_at_once if rest else MaidRegistryFile.most_at_once,
    )  # fmt: skip
    return registry, tuple(sorted(checker.problems, key=lambda problem: problem.line))


def _roots(checker: Checker, written: list[str]) -> Iterator[Path]:
    for index, text in enumerate(written):
        place = ("project_roots", index)
        if "\0" in text:
            checker.fault(place, "the NUL character can't be part of a path")
            continue
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            checker.fault(place, f"the home folder of {text!r} is not known")
            continue
        if path.is_absolute():
            yield path.resolve()
        else:
            checker.fault(place, f"{text!r} is relative; write an absolute path, or one that begins with ~")


def _contradictions(entry: MaidEntry, allowed: Allowed | None) -> Iterator[Fault]:
    """What no single key can tell."""
    if not entry.command_template and entry.kind != "goose":
        key = () if entry.command_template is None else ("command_template",)
        yield key, f"a maid of kind {entry.kind!r} needs a command_template, such as [python3, format.py]"
    for place, message in template_faults(entry.command_template or (), entry.model):
        yield ("command_template", *place), message
    if entry.mode is not None and entry.kind not in ("acp", "goose"):
        yield ("mode",), f"has a meaning only with kind 'acp' or 'goose'; this maid's is {entry.kind!r}"
    for name in sorted({*entry.env} & {*entry.variables}):
        yield ("variables", name), "is listed in env too; either pass it through or set it"
    if allowed is not None:
        for place, message in profile_faults(entry.verification_profile, allowed):
            yield ("verification_profile", *place), message


def _definition(entry: MaidEntry, raw: Mapping[str, Any], source: str, folder: Path) -> MaidDefinition:
    endpoint = entry.endpoint
    return MaidDefinition(
        maid_id=entry.maid_id,
        kind=entry.kind,
        label=entry.label or entry.maid_id,
        provider=entry.provider,
        model=entry.model,
        role=entry.role,
        command_template=beside(entry.command_template or GOOSE_COMMAND, folder, template=True),
        env=tuple(entry.env),
        enabled=entry.enabled,
        timeout=entry.timeout,
        permission=meant(entry.permission),
        launch_verdict="allow" if entry.launch_verdict == "allow" else "approve",
        verification_profile=profile_of(entry.verification_profile, folder),
        limits=Limits(**entry.limits.model_dump()),
        endpoint=Endpoint(**endpoint.model_dump()) if endpoint else None,
        mode=entry.mode,
        variables=dict(entry.variables),
        sandbox=entry.sandbox,
        include_uncommitted=entry.include_uncommitted,
        keep_tree=entry.keep_tree,
        source=source,
        declaration=dict(raw),
    )
