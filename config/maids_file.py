"""maid_registry.yml: the units that work can be given to, and how their work is checked (D2, D8)."""

from __future__ import annotations

from pathlib import Path

from config.maid_types import MaidRegistryFile
from config.yaml_source import read_yaml


def load_maids_file(path: Path, *, cwd: Path | None = None) -> MaidRegistryFile:
    """Read maid_registry.yml; an absent file has no maids.

    Raises:
        ConfigError: one problem per fault.
    """
    read_yaml(path, cwd)
    return MaidRegistryFile()
