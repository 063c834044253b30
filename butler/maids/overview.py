"""The registry as it is shown: each maid with its routes, health and adoption, each project root (D2, D13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from butler.maids.facts import find_program, health_of, missing_variables
from butler.types import Json
from config.maid_types import Adoption, MaidDefinition, MaidRegistryFile, RouteDefinition
from config.projects_file import ProjectDefinition


def maid_documents(
    registry: MaidRegistryFile,
    routes: Iterable[RouteDefinition],
    environ: Mapping[str, str],
    adoption: Mapping[str, Adoption],
) -> list[Json]:
    """Every maid for JSON, in the order of the file; no value of a variable is among it.

    Args:
        environ: the variables in force; only whether one is set is told.
        adoption: what evaluations found, by maid_id.
    """
    routes = tuple(routes)
    return [_document(maid, routes, environ, adoption) for maid in registry.maids]


def _document(
    maid: MaidDefinition,
    routes: tuple[RouteDefinition, ...],
    environ: Mapping[str, str],
    adoption: Mapping[str, Adoption],
) -> Json:
    health, missing = health_of(maid, environ), missing_variables(maid, environ)
    own = [route for route in routes if route.maid_id == maid.maid_id]
    return {
        "maid_id": maid.maid_id,
        "kind": maid.kind,
        "label": maid.label,
        "provider": maid.provider,
        "model": maid.model,
        "role": maid.role,
        "enabled": maid.enabled,
        "permission": maid.permission,
        "launch_verdict": maid.launch_verdict,
        "timeout": maid.timeout,
        "sandbox": maid.sandbox,
        "source": maid.source,
        "intents": list(dict.fromkeys(route.intent for route in own)),
        "routes": [{"intent": route.intent, "source": route.source} for route in own],
        "checks": not maid.verification_profile.is_empty,
        "program": find_program(maid, environ),
        "env": [{"name": name, "set": name not in missing} for name in _names(maid)],
        "healthy": health.ok,
        "health": health.detail or "it could start now",
        "adoption": adoption.get(maid.maid_id),
    }


def _names(maid: MaidDefinition) -> list[str]:
    key = maid.endpoint.api_key_env if maid.endpoint else None
    return list(dict.fromkeys([*maid.env, *([key] if key else [])]))


def root_documents(registry: MaidRegistryFile) -> list[Json]:
    """Every project root, and whether there is such a folder."""
    return [{"path": str(root), "exists": root.is_dir()} for root in registry.project_roots]


def project_documents(projects: Iterable[ProjectDefinition]) -> list[Json]:
    """Every project for JSON; of its variables the names alone (D12)."""
    return [
        {
            "name": one.name, "project_root": str(one.project_root), "exists": one.project_root.is_dir(),
            "config_dir": _shown(one.config_dir), "env_path": _shown(one.env_path),
            "variables": sorted(one.variables), "issue_template_dir": _shown(one.issue_template_dir),
            "session_logs_dir": _shown(one.session_logs_dir), "maids": [maid.maid_id for maid in one.own_maids],
            "source": one.source,
        }
        for one in projects
    ]  # fmt: skip


def _shown(path: Path | None) -> str | None:
    return None if path is None else str(path)


def warnings(
    registry: MaidRegistryFile, routes: Iterable[RouteDefinition], environ: Mapping[str, str]
) -> Iterator[str]:
    """What is no fault of the files and still keeps maids from working, or makes them able to do more than meant."""
    routes = tuple(routes)
    for maid in registry.maids:
        if not maid.enabled:
            continue
        health = health_of(maid, environ)
        missing = missing_variables(maid, environ)
        if not health.ok:
            yield f"{maid.source}: {maid.maid_id}: {health.detail}"
        elif missing:
            yield f"{maid.source}: {maid.maid_id}: in env, but not set: {', '.join(missing)}"
        if maid.verification_profile.is_empty:
            yield f"{maid.source}: {maid.maid_id}: it has no checks, so its work can only end as unverified"
        if maid.sandbox == "none" and maid.kind != "script":
            yield (
                f"{maid.source}: {maid.maid_id}: it runs without a sandbox, so it has the rights of Butler's own user, "
                "its token and keys among them; set `sandbox: bubblewrap`"
            )
        if all(route.maid_id != maid.maid_id for route in routes):
            yield f"{maid.source}: {maid.maid_id}: no route leads to it; only a person can name it"
    for root in registry.project_roots:
        if not root.is_dir():
            yield f"project_roots: there is no folder {root}"
        elif root in (Path("/"), Path.home()):
            yield f"project_roots: {root} allows more than projects; name the folder that they are in"
    if registry.maids and not registry.project_roots:
        yield "project_roots: there are none, so no project can be worked on; add the folder that your projects are in"
