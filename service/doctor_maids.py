"""`butler doctor` on maids: whether the enabled ones could start, and where they may work (E5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from butler.maids.facts import health_of
from butler.maids.overview import warnings
from config.maid_types import MaidRegistryFile, RouteDefinition
from service.doctor import Finding

UNABLE = "install or set what is missing, correct the row, or set `enabled: false`"


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
    enabled = [maid for maid in registry.maids if maid.enabled]
    health = [(maid, health_of(maid, environ)) for maid in enabled]
    unable = {f"{maid.source}: {maid.maid_id}: {found.detail}" for maid, found in health if not found.ok}
    for warning in told:
        yield Finding("maids", "note", warning, UNABLE if warning in unable else "")
    able = [maid for maid, found in health if found.ok]
    if not told or len(able) == len(enabled):
        detail = f"{len(able)} of {len(registry.maids)} could start now, {len(routes)} route(s)"
        yield Finding("maids", "good", detail)
