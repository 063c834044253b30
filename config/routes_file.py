"""intent_maid_routes.yml: which maid a task of an intent goes to, in file order (D2)."""

from __future__ import annotations

from pathlib import Path

from config.maid_types import MaidRegistryFile, RouteDefinition
from config.yaml_source import read_yaml


def load_routes_file(
    path: Path, registry: MaidRegistryFile | None, *, cwd: Path | None = None
) -> tuple[RouteDefinition, ...]:
    """Read intent_maid_routes.yml; an absent file has no routes.

    Args:
        registry: the maids that a route may name; None where that file has faults, so that none is called unknown.

    Raises:
        ConfigError: one problem per fault.
    """
    read_yaml(path, cwd)
    return ()
