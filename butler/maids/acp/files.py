"""The file requests of an agent, kept inside its tree also against links that change meanwhile (D4, D10)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from butler.maids.acp.places import Place

MOST_BYTES = 16 * 1024 * 1024
"""The largest file that is read or written for an agent."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe or a device never makes us wait


class Refused(Exception):
    """A file request that leaves the tree, or asks for what no file request may do; says why."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(reason)
        self.path = path


class TreeFiles:
    """Reads and writes text for an agent. Blocking; the caller runs it in a thread."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self, said: str, line: int | None = None, limit: int | None = None) -> str:
        """Give a file's text, or `limit` lines of it from the 1-based `line` on.

        Raises:
            Refused: outside of the tree, not a file, too large, or not text.
            OSError: it can't be read.
        """
        parts = self._parts(said)
        path = self._place.tree.joinpath(*parts)
        folder = self._folder(parts[:-1], make=False)
        try:
            descriptor = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "rb") as file:
            self._check(os.fstat(descriptor), path)
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Refused(f"{said} is larger than {MOST_BYTES} bytes.", path)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(f"{said} is not UTF-8 text.", path) from None
        if line is None and limit is None:
            return text
        first = max((line or 1) - 1, 0)
        return "".join(text.splitlines(keepends=True)[first : None if limit is None else first + max(limit, 0)])

    def write(self, said: str, content: str) -> Path:
        """Write a file whole, making its folders. Gives its path.

        Raises:
            Refused: outside of the tree, inside of ``.git``, not a file, or too large.
            OSError: it can't be written.
        """
        parts = self._parts(said)
        path = self._place.tree.joinpath(*parts)
        if ".git" in (part.lower() for part in parts):
            raise Refused(f"{said} belongs to git.", path)
        data = content.encode("utf-8", errors="surrogatepass")
        if len(data) > MOST_BYTES:
            raise Refused(f"{said} would be larger than {MOST_BYTES} bytes.", path)
        folder = self._folder(parts[:-1], make=True)
        try:
            descriptor = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | _FILE, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "wb") as file:
            self._check(os.fstat(descriptor), path)
            file.truncate()
            file.write(data)
        return path

    def _parts(self, said: str) -> tuple[str, ...]:
        parts = self._place.inside_parts(said)
        if parts is None:
            raise Refused(f"{said} is outside of the working folder.", self._place.resolve(said))
        if not parts:
            raise Refused(f"{said} is the working folder itself.", self._place.tree)
        return parts

    def _folder(self, parts: tuple[str, ...], *, make: bool) -> int:
        """Open the folder step by step. The path is resolved: a link on the way has come since, and is not followed."""
        current = os.open(self._place.tree, _FOLDER)
        for part in parts:
            try:
                try:
                    following = os.open(part, _FOLDER, dir_fd=current)
                except FileNotFoundError:
                    if not make:
                        raise
                    os.mkdir(part, dir_fd=current)
                    following = os.open(part, _FOLDER, dir_fd=current)
            finally:
                os.close(current)
            current = following
        return current

    @staticmethod
    def _check(status: os.stat_result, path: Path) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path.name} is not a plain file.", path)
