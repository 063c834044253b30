"""Secrets of Butler's own in a change: shown masked, they would be written into the project as they are (F2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from butler.maids.contract import Diff
from butler.redact import Redactor

SURELY = 12
"""Characters from which a value is no ordinary word that also happens to be somebody's key."""
CHUNK = 1024 * 1024


@dataclass(frozen=True)
class Leaks:
    """How many more secrets are in the change than in what it replaces: long ones, and short ones."""

    secrets: int = 0
    words: int = 0

    def violation(self) -> str | None:
        """What is said where the change can't be accepted."""
        if not self.secrets:
            return None
        return f"Its changes hold a secret of Butler's ({self.secrets} time(s)); it would be written into the project."

    def note(self) -> str | None:
        """What a person has to know who sees it masked."""
        if not self.words:
            return None
        return f"{self.words} place(s) shown as *** read like a short secret of Butler's; they are applied as they are."


async def leaks_of(diff: Diff, tree: Path, redactor: Redactor) -> Leaks:
    """Look for known secrets in what a change adds: its whole patch, names and binary files included.

    A value that it removes as often as it adds was there before. Values that are written otherwise, as in base64,
    are not found.

    Args:
        tree: the folder that the diff's paths are relative to.
    """
    return await asyncio.to_thread(_leaks_of, diff, tree, redactor)


def _leaks_of(diff: Diff, tree: Path, redactor: Redactor) -> Leaks:
    added, removed = _count(_lines(diff.patch, b"+"), redactor), _count(_lines(diff.patch, b"-"), redactor)
    for change in diff.changes:
        # A name that has no line of its own in a patch: that of an empty, a binary or a moved file.
        added += _count([change.path.encode()], redactor)
        removed += _count([(change.old_path or "").encode()], redactor)
        if change.binary and change.status != "deleted":
            added += _count(_bytes(tree / change.path), redactor)
    more = added - removed
    sure = sum(count for value, count in more.items() if len(value) >= SURELY)
    return Leaks(sure, more.total() - sure)


def _lines(patch: Path, sign: bytes) -> Iterator[bytes]:
    """What follows the sign in lines that begin with it, the headers with file names too."""
    goes_on = False
    with patch.open("rb") as file:
        while piece := file.readline(CHUNK):
            if goes_on:
                yield piece
            elif piece.startswith(sign):
                goes_on = True
                yield piece[1:]
            goes_on = goes_on and not piece.endswith(b"\n")


def _bytes(path: Path) -> Iterator[bytes]:
    if path.is_symlink() or not path.is_file():
        return
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def _count(pieces: Iterable[bytes], redactor: Redactor) -> Counter[str]:
    """How often each secret occurs; one that lies across two pieces counts too."""
    found: Counter[str] = Counter()
    window = ""
    # Small pieces are gathered: a patch may have very many short lines.
    for text in _gathered(pieces):
        seen = len(window)
        window += text
        found.update(match.group() for match in redactor.matches(window) if match.end() > seen)
        window = window[-redactor.longest :]
    return found


def _gathered(pieces: Iterable[bytes]) -> Iterator[str]:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= CHUNK:
            yield held.decode("utf-8", "replace")
            held.clear()
    yield held.decode("utf-8", "replace")
