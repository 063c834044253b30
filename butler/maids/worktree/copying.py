"""Copies a folder that has no repository with commits, within limits and without a word left out (D6)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from butler.errors import ButlerError

COPY_FILES = 20_000
COPY_BYTES = 512 * 1024 * 1024


def walk_files(root: Path, skip: Path) -> Iterator[str]:
    """Every path below `root` that is no folder, and empty folders with a ``/`` at their end.

    `skip` (Butler's own data) is left out.
    """
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as scanned:
            entries = sorted(scanned, key=lambda item: item.name)
            if prefix and not entries:
                yield prefix
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield prefix + entry.name
                elif Path(entry.path) != skip:
                    pending.append(f"{prefix}{entry.name}/")


def copy_files(source: Path, target: Path, names: Iterable[str], max_files: int, max_bytes: int) -> tuple[str, ...]:
    """Copy files and links (as links) with their modes; give notes about what cannot be copied.

    Raises:
        ButlerError: ``too_large``: more than `max_files` or `max_bytes`.
    """
    count = size = 0
    special: list[str] = []
    git: list[str] = []
    target.mkdir(parents=True)
    for name in names:
        place = source / name
        parts = name.split("/")
        if name.endswith("/") and ".git" not in parts:
            (target / name).mkdir(parents=True, exist_ok=True)
            continue
        if ".git" in parts:
            git.append("/".join(parts[: parts.index(".git") + 1]))
            continue
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # listed by git, deleted by the person
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            special.append(name)
            continue
        count, size = count + 1, size + found.st_size
        if count > max_files or size > max_bytes:
            raise ButlerError(
                "too_large",
                f"{source} is too large to be copied: more than {max_files} files or {max_bytes} bytes. Make it a git "
                "repository with a first commit (then nothing is copied), or name a smaller folder.",
            )
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place, target / name, follow_symlinks=False)
    return _notes("Not copied, as they are no plain files", special) + _notes("History is not copied", git)


def _notes(what: str, names: list[str]) -> tuple[str, ...]:
    shown = [os.fsencode(name).decode("utf-8", "backslashreplace") for name in sorted(set(names))]
    return (f"{what}: {', '.join(shown[:10])}{' …' if len(shown) > 10 else ''}.",) if shown else ()
