"""Environment variables with their origin: the process environment wins over a ``.env`` file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream

from config.problems import ConfigError, Problem, label


@dataclass(frozen=True)
class Environment:
    """All variables in force, and for those of the ``.env`` file the line they stand on."""

    values: Mapping[str, str]
    file: str
    lines: Mapping[str, int]

    def get(self, name: str) -> str | None:
        """Give the value of a variable; an empty one counts as unset."""
        return self.values.get(name) or None

    def problem(self, name: str, message: str) -> Problem:
        """Say what is wrong with a variable, and where it was set."""
        if name in self.lines:
            return Problem(self.file, self.lines[name], name, message)
        return Problem("environment", 0, name, message)


def environment_file(environ: Mapping[str, str], cwd: Path | None = None) -> Path:
    """The file of variables: what ``BUTLER_ENV_PATH`` of the process says, else ``.env`` of the working directory."""
    return (cwd or Path.cwd()) / Path(environ.get("BUTLER_ENV_PATH") or ".env").expanduser()


def read_environment(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Environment:
    """Join the process environment with the file of variables (`environment_file`); values are taken literally.

    Raises:
        ConfigError: the ``.env`` file can't be read or has lines that are no assignments.
    """
    process = dict(os.environ if environ is None else environ)
    path = environment_file(process, cwd)
    file = label(path, cwd)
    if process.get("BUTLER_ENV_PATH") and not path.is_file():
        raise ConfigError([Problem("environment", 0, "BUTLER_ENV_PATH", f"there is no file {path}")])
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems = []
    try:
        text = path.read_text("utf-8-sig") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(file, 1, "file", f"cannot be read: {error}")]) from error
    for binding in parse_stream(StringIO(text)):
        leading = len(binding.original.string) - len(binding.original.string.lstrip())
        line = binding.original.line + binding.original.string[:leading].count("\n")
        if binding.error or (binding.key is not None and binding.value is None):
            problems.append(Problem(file, line, binding.key or "line", "expected NAME=value"))
        elif binding.key is not None and binding.value is not None:
            values[binding.key] = binding.value
            lines[binding.key] = line
    if problems:
        raise ConfigError(problems)
    # An empty variable of the process counts as unset, so it does not hide the file's value.
    lines = {name: number for name, number in lines.items() if not process.get(name)}
    values.update({name: value for name, value in process.items() if value or name not in values})
    return Environment(values, file, lines)
