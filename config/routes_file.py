"""intent_maid_routes.yml: which maid a task of an intent goes to, in file order (D2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from config.maid_types import MaidRegistryFile, RetryPolicy, RouteDefinition
from config.problems import ConfigError, Problem, did_you_mean
from config.route_entries import MAID_CONDITIONS, ConditionsEntry, RouteEntry, RoutesDocument, contradictions
from config.strict import Checker
from config.yaml_source import Loc, read_yaml


def load_routes_file(
    path: Path, registry: MaidRegistryFile | None, *, cwd: Path | None = None
) -> tuple[RouteDefinition, ...]:
    """Read intent_maid_routes.yml; an absent file has no routes.

    Args:
        registry: the maids that a route may name; None where that file has faults, so that none is called unknown.

    Raises:
        ConfigError: one problem per fault.
    """
    routes, problems = read_routes_file(path, registry, cwd=cwd)
    if problems:
        raise ConfigError(problems)
    return routes


def read_routes_file(
    path: Path, registry: MaidRegistryFile | None, *, cwd: Path | None = None
) -> tuple[tuple[RouteDefinition, ...], tuple[Problem, ...]]:
    """The routes without any fault of their own, and every fault in the order of the lines.

    Raises:
        ConfigError: the file can't be read at all.
    """
    source = read_yaml(path, cwd)
    checker = Checker(source)
    routes: list[RouteDefinition] = []
    for loc, raw in checker.entries("routes", RoutesDocument):
        before = len(checker.problems)
        entry = checker.model(RouteEntry, raw, loc)
        if isinstance(raw.get("maid_id"), str) and registry is not None:
            _check_maid(checker, (*loc, "maid_id"), raw["maid_id"], registry)
        if entry is None:
            continue
        for place, message in contradictions(entry):
            checker.fault((*loc, *place), message)
        route = _definition(entry, checker.place((*loc, "intent")))
        winner = next((earlier for earlier in routes if always_first(earlier, route)), None)
        if winner is not None:
            told = f"can never win: the route at {winner.source} comes first and holds whenever this one does"
            checker.fault((*loc, "intent"), told)
        if len(checker.problems) == before:
            routes.append(route)
    return tuple(routes), tuple(sorted(checker.problems, key=lambda problem: problem.line))


def _check_maid(checker: Checker, place: Loc, maid_id: str, registry: MaidRegistryFile) -> None:
    maid = registry.maid(maid_id)
    enabled = [other.maid_id for other in registry.maids if other.enabled]
    if maid is None:
        known = did_you_mean(maid_id, enabled) or did_you_mean(maid_id, [other.maid_id for other in registry.maids])
        checker.fault(place, f"there is no maid {maid_id!r} in maid_registry.yml{known}")
    elif not maid.enabled:
        hint = did_you_mean(maid_id, enabled)
        checker.fault(place, f"the maid {maid_id!r} is disabled at {maid.source}; enable it or name another{hint}")


def _definition(entry: RouteEntry, source: str) -> RouteDefinition:
    retry = entry.retry_policy_json
    return RouteDefinition(
        intent=entry.intent,
        maid_id=entry.maid_id,
        conditions=_conditions(entry.conditions_json),
        retry_policy=RetryPolicy(retry.max_attempts, None if retry.retry_on is None else tuple(retry.retry_on))
        if retry
        else None,
        source=source,
    )


def _conditions(entry: ConditionsEntry) -> Mapping[str, Any]:
    """The conditions that are set, in the order of the keys; one glob is a list of one."""
    found = {key: value for key, value in entry.model_dump().items() if value not in (None, {})}
    if entry.min_success_rate is None:
        found.pop("min_runs")
    return found


def always_first(earlier: RouteDefinition, later: RouteDefinition) -> bool:
    """Whether the earlier route of an intent certainly holds whenever the later one does; False when unsure."""
    if earlier.intent != later.intent:
        return False
    same_maid = earlier.maid_id == later.maid_id
    return all(
        (same_maid or key not in MAID_CONDITIONS) and _implied(key, wanted, later.conditions)
        for key, wanted in earlier.conditions.items()
    )


def _implied(key: str, wanted: Any, given: Mapping[str, Any]) -> bool:
    """Whether conditions that hold make this one hold too."""
    if key == "parameters":
        return all(name in given.get(key, {}) and _equal(given[key][name], value) for name, value in wanted.items())
    if key == "min_runs":  # fewer runs make the rate count earlier, which is the harder condition
        return key in given and bool(given[key] <= wanted)
    if key not in given:
        return False
    value = given[key]
    if key in ("min_instruction_chars", "files_count_min", "min_success_rate"):
        return bool(value >= wanted)
    if key in ("max_instruction_chars", "files_count_max"):
        return bool(value <= wanted)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return set(value) <= set(wanted)
    return bool(value == wanted)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
