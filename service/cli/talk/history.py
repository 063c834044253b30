"""What a person typed, kept for the next talk: readable by that person only, and never a line with a known secret."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

MOST_LINES = 1_000
MOST_CHARACTERS = 20_000


class KeptHistory(History):
    """One JSON text a line, the newest last.

    Args:
        path: the file; None, or one that can't be written, keeps the lines for this talk only.
        is_secret: whether a line holds what must not be kept.
    """

    def __init__(self, path: Path | None, is_secret: Callable[[str], bool]) -> None:
        super().__init__()
        self._path = path
        self._is_secret = is_secret

    def load_history_strings(self) -> Iterable[str]:
        """The lines kept, newest first."""
        lines = self._read()
        if len(lines) > 2 * MOST_LINES:
            self._write(lines[-MOST_LINES:], os.O_TRUNC)
        return [line for line in map(_text, reversed(lines[-MOST_LINES:])) if line]

    def store_string(self, string: str) -> None:
        """Keep a line, unless it is one that must not be kept or is very long."""
        if string.strip() and len(string) <= MOST_CHARACTERS and not self._is_secret(string):
            self._write([json.dumps(string)], os.O_APPEND)

    def _read(self) -> list[str]:
        if self._path is not None:
            with suppress(OSError, UnicodeDecodeError):
                descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(descriptor, encoding="utf-8") as file:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        return file.read().splitlines()
        return []

    def _write(self, lines: list[str], how: int) -> None:
        if self._path is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not waiting for a reader, in case it is a pipe.
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | how
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                file.writelines(f"{line}\n" for line in lines)


def _text(line: str) -> str:
    with suppress(ValueError):
        value = json.loads(line)
        return value if isinstance(value, str) else ""
    return ""
