"""The conditions of a route, one function each: what is wanted, what is there, whether it holds (D2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from butler.canonical import canonical_json
from butler.globs import compile_glob
from butler.maids.pathglobs import first_match
from config.maid_profile import is_loopback
from config.maid_types import Adoption, MaidDefinition, RouteDefinition

LOCAL_PROVIDERS = frozenset({"ollama", "llamacpp", "lmstudio"})


@dataclass(frozen=True)
class ProjectFiles:
    """Files of a project as paths relative to it; `is_cut` when there are more than were looked at."""

    paths: tuple[str, ...]
    is_cut: bool = False


@dataclass(frozen=True)
class Health:
    """Whether a maid could start now, and why not."""

    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Success:
    """How many tasks a maid has finished, and how many of them succeeded."""

    runs: int
    succeeded: int


@dataclass(frozen=True)
class Facts:
    """What routing decides by, as plain values.

    `project` has its links resolved. `files` None: not looked at. `maid_id` only where a person named one. The
    mappings are by maid_id; a maid that is missing there is not known.
    """

    intent: str
    instruction: str
    project: Path | None = None
    files: ProjectFiles | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)
    success: Mapping[str, Success] = field(default_factory=dict)
    adoption: Mapping[str, Adoption] = field(default_factory=dict)
    maid_id: str | None = None


@dataclass(frozen=True)
class Condition:
    """One condition of a route beside what was found."""

    name: str
    wanted: str
    actual: str
    holds: bool

    def __str__(self) -> str:
        return f"{self.name}: wanted {self.wanted}, found {self.actual}"


def examine(route: RouteDefinition, maid: MaidDefinition | None, facts: Facts) -> tuple[Condition, ...]:
    """Look at every condition of a route; `maid` is the one that it names."""
    return tuple(_examined(route, maid, facts))


def needs_files(route: RouteDefinition) -> bool:
    """Whether the route asks about the project's files."""
    return bool({"files_match", "files_count_min", "files_count_max"} & set(route.conditions))


Check = Callable[[Any, Facts, MaidDefinition | None, Mapping[str, Any]], tuple[str, str, bool]]


def _examined(route: RouteDefinition, maid: MaidDefinition | None, facts: Facts) -> Iterator[Condition]:
    for name, wanted in route.conditions.items():
        if name == "parameters":
            for parameter, value in wanted.items():
                yield _parameter(parameter, value, facts)
        elif name != "min_runs":
            yield Condition(name, *_CHECKS[name](wanted, facts, maid, route.conditions))


def _min_chars(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    count = len(facts.instruction)
    return f"{wanted} or more characters", str(count), count >= wanted


def _max_chars(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    count = len(facts.instruction)
    return f"at most {wanted} characters", str(count), count <= wanted


def _project(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    shown = " or ".join(wanted)
    if facts.project is None:
        return shown, "no project", False
    path = str(facts.project)
    return shown, path, any(compile_glob(glob)(path) for written in wanted for glob in _homes(written))


def _homes(glob: str) -> Iterator[str]:
    """The glob with ``~`` as it is written and with its links resolved, since the project's are."""
    if glob != "~" and not glob.startswith("~/"):
        yield glob
        return
    home = Path.home()
    for folder in {str(home), str(home.resolve())}:
        # A home folder with a star or a bracket in its name must not read like a glob.
        yield "".join(f"[{char}]" if char in "*?[" else char for char in folder) + glob[1:]


def _files_match(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    shown = f"a file like {' or '.join(wanted)}"
    if facts.files is None:
        return shown, "no files were looked at", False
    found = first_match(facts.files.paths, wanted)
    if found is not None:
        return shown, found, True
    return shown, f"none among {_count(facts.files)} file(s)", False


def _files_min(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    if facts.files is None:
        return f"{wanted} or more files", "no files were looked at", False
    return f"{wanted} or more files", _count(facts.files), len(facts.files.paths) >= wanted


def _files_max(wanted: Any, facts: Facts, *_: Any) -> tuple[str, str, bool]:
    if facts.files is None:
        return f"at most {wanted} files", "no files were looked at", False
    holds = not facts.files.is_cut and len(facts.files.paths) <= wanted
    return f"at most {wanted} files", _count(facts.files), holds


def _count(files: ProjectFiles) -> str:
    return f"more than {len(files.paths)}" if files.is_cut else str(len(files.paths))


def _parameter(name: str, wanted: Any, facts: Facts) -> Condition:
    label = f"parameters.{name}"
    globs = wanted if isinstance(wanted, list) else [wanted]
    shown = " or ".join(_text(glob) for glob in globs)
    if name not in facts.parameters:
        return Condition(label, shown, "nothing", False)
    actual = _text(facts.parameters[name])
    holds = any(compile_glob(glob)(actual) if isinstance(glob, str) else _text(glob) == actual for glob in globs)
    return Condition(label, shown, actual, holds)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _healthy(wanted: Any, facts: Facts, maid: MaidDefinition | None, *_: Any) -> tuple[str, str, bool]:
    health = facts.health.get(maid.maid_id) if maid else None
    if health is None:
        return "a maid that could start now", "not known", False
    return "a maid that could start now", "yes" if health.ok else health.detail or "no", health.ok


def _success(
    wanted: Any, facts: Facts, maid: MaidDefinition | None, conditions: Mapping[str, Any]
) -> tuple[str, str, bool]:
    least = conditions.get("min_runs", 1)
    shown = f"{wanted:.0%} of its tasks or more, once it has {least}"
    past = facts.success.get(maid.maid_id) if maid else None
    runs, succeeded = (past.runs, past.succeeded) if past else (0, 0)
    return shown, f"{succeeded} of {runs} succeeded", runs < least or succeeded >= wanted * runs


def _adoption(wanted: Any, facts: Facts, maid: MaidDefinition | None, *_: Any) -> tuple[str, str, bool]:
    found = facts.adoption.get(maid.maid_id) if maid else None
    return " or ".join(wanted), found or "not evaluated", found in wanted


def _local_only(wanted: Any, facts: Facts, maid: MaidDefinition | None, *_: Any) -> tuple[str, str, bool]:
    where = whereabouts(maid) if maid else "no maid"
    return "a maid that sends nothing to another machine", where, where == "local"


def whereabouts(maid: MaidDefinition) -> str:
    """``local`` where the registry row shows that the maid's model is on this machine, else where it is instead."""
    if maid.endpoint is not None:
        host = urlsplit(maid.endpoint.base_url).hostname or ""
        return "local" if is_loopback(host) else f"its provider is at {host}"
    if maid.provider.lower().startswith("local") or maid.provider.lower() in LOCAL_PROVIDERS:
        return "local"
    if maid.kind == "script" and maid.model is None:
        return "local"
    return f"the provider {maid.provider!r}, whose address is not known" if maid.provider else "no known provider"


_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "min_instruction_chars": _min_chars,
        "max_instruction_chars": _max_chars,
        "project": _project,
        "files_match": _files_match,
        "files_count_min": _files_min,
        "files_count_max": _files_max,
        "healthy": _healthy,
        "min_success_rate": _success,
        "adoption": _adoption,
        "local_only": _local_only,
    }
)
