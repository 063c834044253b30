"""`butler doctor` on maids: whether the enabled ones could start, and where they may work (E5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from butler.maids.facts import health_of
from butler.maids.overview import warnings
from config.maid_types import MaidRegistryFile, RouteDefinition
from service.doctor import Finding


def maids(
    registry: MaidRegistryFile, routes: tuple[RouteDefinition, ...], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """What keeps maids from working; nothing where there are none.

    Args:
        environ: the variables in force, which `health_of` looks for.
    """
    if not registry.maids:
        return
    told = list(warnings(registry, routes, environ))
    yield from (Finding("maids", "note", warning) for warning in told)
    enabled = [maid for maid in registry.maids if maid.enabled]
    able = [maid for maid in enabled if health_of(maid, environ).ok]
    if not told or len(able) == len(enabled):
        detail = f"{len(able)} of {len(registry.maids)} could start now, {len(routes)} route(s)"
        yield Finding("maids", "good", detail)
