"""JSON read safely, with the line of every key: what other programs' files are written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from config.problems import ConfigError, Problem, label
from config.yaml_source import Source, parse_yaml, read_text


def read_json(path: Path, cwd: Path | None = None) -> Source:
    """Read one JSON file; an absent or empty file gives the value None.

    Values come from the JSON reader; lines and duplicate keys from the YAML one, since all JSON is YAML.

    Raises:
        ConfigError: the file is unreadable, not UTF-8 or not JSON.
    """
    file = label(path, cwd)
    text = read_text(path, file)
    if not text.strip():
        return Source(file, path, None, {})
    try:
        value: Any = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ConfigError([Problem(file, error.lineno, "json", f"{error.msg}, at column {error.colno}")]) from error
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError([Problem(file, 1, "json", why)]) from error
    # A tab between JSON's own signs is a space; inside a text JSON has none.
    placed = parse_yaml(text.replace("\t", " "), path, file)
    return Source(file, path, value, placed.lines, placed.problems)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
