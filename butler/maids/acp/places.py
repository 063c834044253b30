"""Paths as an agent says them, made absolute, and whether they stay inside the tree (D10)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

PATH_KEYS = frozenset(
    {"path", "file", "filename", "filepath", "abspath", "absolutepath", "notebookpath", "directory", "dir", "cwd"}
    | {"workdir", "source", "destination", "oldpath", "newpath", "paths", "files"}
)
"""Names of arguments that hold paths in the tools of the agents we know, without case, ``-`` and ``_``."""


@dataclass(frozen=True)
class Place:
    """The folders that an agent's words refer to; both absolute, links resolved."""

    tree: Path
    home: Path

    @classmethod
    def of(cls, tree: Path, home: Path) -> Place:
        """Resolve both folders."""
        return cls(Path(os.path.realpath(tree)), Path(os.path.realpath(home)))

    def resolve(self, said: str) -> Path:
        """Make a path absolute: relative to the tree, ``~`` as the agent's home, links resolved.

        A text that no file can be called (a NUL in it) is taken for a name at the root, which is never inside.
        """
        text = unquote(said.removeprefix("file://")) if said.startswith("file://") else said
        if "\0" in text:
            return Path("/", text.replace("\0", "?").strip("/") or "?")
        if text == "~" or text.startswith("~/"):
            text = str(self.home) + text[1:]
        return Path(os.path.realpath(self.tree / text))

    def is_inside(self, path: Path) -> bool:
        """Whether a resolved path is the tree or below it."""
        return path == self.tree or self.tree in path.parents

    def inside_parts(self, said: str) -> tuple[str, ...] | None:
        """The names that lead from the tree to a path, links resolved; None for one outside."""
        path = self.resolve(said)
        return path.relative_to(self.tree).parts if self.is_inside(path) else None


def said_paths(update: Mapping[str, Any]) -> list[str]:
    """All paths that a tool call names: its locations, its diffs, its arguments, each once, in that order."""
    found: dict[str, None] = {}
    for item in _dicts(update.get("locations")):
        _note(found, item.get("path"))
    for item in _dicts(update.get("content")):
        if item.get("type") == "diff":
            _note(found, item.get("path"))
    raw = update.get("rawInput")
    if isinstance(raw, Mapping):
        for key, value in raw.items():
            if plain(key) in PATH_KEYS:
                _note(found, value)
    return list(found)


def plain(name: Any) -> str:
    """The name of an argument without case, ``_`` and ``-``."""
    return str(name).lower().replace("_", "").replace("-", "")


def _note(found: dict[str, None], value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and one.strip():
            found.setdefault(one)


def _dicts(value: Any) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
