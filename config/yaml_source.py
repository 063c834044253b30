"""YAML read safely, with the line of every key: no duplicate keys, no values beyond JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from config.problems import ConfigError, Problem, label
from config.yaml_faults import syntax_fault

Loc = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000  # aliases let a small file unfold to gigabytes
SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null"))
COLLECTIONS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(frozen=True)
class Source:
    """A parsed file: JSON-like values, the line of each key and list item, and faults found so far."""

    file: str
    path: Path
    value: Any
    lines: Mapping[Loc, int]
    problems: tuple[Problem, ...] = ()

    def line(self, loc: Loc) -> int:
        """Give the line of a place, or of the nearest place around it."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc, 1)


class _Loader(yaml.SafeLoader):
    """Reads the scalars of JSON only; dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [(tag, regexp) for tag, regexp in resolvers if tag in SCALARS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(path: Path, cwd: Path | None = None) -> Source:
    """Read one YAML file; an absent or empty file gives the value None.

    Duplicate keys and values that are not JSON are left out and named in the source's `problems`.

    Raises:
        ConfigError: the file is unreadable, not UTF-8 or not YAML.
    """
    file = label(path, cwd)
    return parse_yaml(read_text(path, file), path, file)


def parse_yaml(text: str, path: Path, file: str) -> Source:
    """Read the text of a YAML file, which faults call `file`. Raises ConfigError as `read_yaml` does."""
    _check_characters(text, file)
    loader = _Loader(text)
    problems: list[Problem] = []
    lines: dict[Loc, int] = {}
    try:
        node = loader.get_single_node()
        value = None if node is None else _Walk(loader, file, lines, problems).value(node, ())
    except yaml.MarkedYAMLError as error:
        line, message = syntax_fault(error, text)
        raise ConfigError([Problem(file, line, "yaml", message)]) from error
    except RecursionError as error:
        raise ConfigError([Problem(file, 1, "yaml", "nested too deeply")]) from error
    finally:
        loader.dispose()
    return Source(file, path, value, lines, tuple(problems))


def read_text(path: Path, file: str) -> str:
    """The text of a file of at most 1 MiB, empty where there is none. Raises ConfigError."""
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError([Problem(file, 1, "file", f"cannot be read: {error.strerror}")]) from error
    if len(data) > MAX_BYTES:
        raise ConfigError([Problem(file, 1, "file", "is larger than 1 MiB")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(file, line, "file", "is not UTF-8; save it as UTF-8")]) from error


def _check_characters(text: str, file: str) -> None:
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        message = f"the control character {found.group()!r} is not allowed"
        raise ConfigError([Problem(file, line, "yaml", message)])


class _Walk:
    """Turns nodes into values, notes lines and collects faults."""

    def __init__(self, loader: _Loader, file: str, lines: dict[Loc, int], problems: list[Problem]) -> None:
        self._loader = loader
        self._file = file
        self._lines = lines
        self._problems = problems
        self._count = 0

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem=f"holds more than {MAX_VALUES} values", problem_mark=node.start_mark)
        self._lines.setdefault(loc, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, loc)
        if node.tag not in COLLECTIONS:
            self._fault(node, loc, f"the tag {node.tag!r} is not allowed")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, loc)

    def _mapping(self, node: yaml.Node, loc: Loc) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                shown = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
                self._fault(key_node, (*loc, shown), "a key must be text; put it in quotes")
                continue
            key = str(key_node.value)
            if key in result:
                first = self._lines[*loc, key]
                self._fault(key_node, (*loc, key), f"duplicate key, first on line {first}")
                continue
            self._lines[*loc, key] = line
            result[key] = self.value(value_node, (*loc, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        if node.tag not in SCALARS:
            self._fault(node, loc, f"the tag {node.tag!r} is not allowed")
            return None
        try:
            value = self._loader.construct_object(node)
        except (ValueError, KeyError, IndexError):
            self._fault(node, loc, f"{node.value!r} is no {node.tag.rpartition(':')[2]}")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._fault(node, loc, "expected a finite number")
            return None
        return value

    def _fault(self, node: yaml.Node, loc: Loc, message: str) -> None:
        self._problems.append(Problem(self._file, node.start_mark.line + 1, key_of(loc), message))


def key_of(loc: Loc) -> str:
    """Write a place as a key: within its entry, so ``tools[2].http.url`` is ``http.url``."""
    if len(loc) > 2 and isinstance(loc[1], int) and isinstance(loc[2], str):
        loc = loc[2:]
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "file"
