"""Faults of the configuration: where they are, what is wrong, what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One fault, printed as ``FILE:LINE: KEY: message`` (config contract)."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.message}"


class ConfigError(Exception):
    """The configuration does not allow a start; carries one problem per fault, exit status 2.

    Args:
        problems: every fault that was found, in the order of the files.
        code: ``invalid_config``, or ``duplicate_governed_tool`` / ``no_governed_tools`` (A2).
    """

    def __init__(self, problems: Sequence[Problem], code: str = "invalid_config") -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.code = code
        self.detail = str(self)


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Give the option that `word` was probably meant to be, if one is near enough."""
    found = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Give `` (did you mean 'X'?)``, or nothing when no option is near."""
    found = nearest(word, options)
    return f" (did you mean {found!r}?)" if found else ""


def label(path: Path, cwd: Path | None = None) -> str:
    """Name a file as a person would: relative to the working directory when it lies below, else absolute."""
    base = (cwd or Path.cwd()).absolute()
    path = base / path
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def not_looked_up(error: Exception) -> str:
    """What to say of a path that raised: nobody's home, links in a circle, too long, no text."""
    return f"can't be looked up: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
