"""Looks at and changes files below one folder without ever going through a symbolic link (D6, D8)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.maids.worktree.store import is_git_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Kind = Literal["absent", "file", "link", "folder", "special", "behind_link", "behind_file"]


@dataclass(frozen=True)
class Found:
    """What is at a path: permission bits and SHA-256 of a file's bytes or a link's target."""

    kind: Kind
    mode: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Wanted:
    """What has to be at a path: nothing, a link, or a file; `executable` None keeps the bits that are there."""

    kind: Literal["absent", "file", "link"]
    sha256: str = ""
    executable: bool | None = None

    def is_met(self, found: Found) -> bool:
        """Whether that is what is there."""
        if self.kind == "absent":
            return found.kind in {"absent", "behind_file"}
        same = found.kind == self.kind and found.sha256 == self.sha256
        return same and (self.executable is None or self.executable == bool(found.mode & 0o100))


@contextlib.contextmanager
def parent_of(root: Path, path: str, *, create: bool = False) -> Iterator[int]:
    """Open the folder that a path lies in, step by step; a link on the way is an OSError."""
    if is_git_path(path) or any(part in {"", ".", ".."} for part in path.split("/")):
        raise ButlerError(
            "forbidden", f"{path!r} may not be written: it leads into a git folder or out of the project."
        )
    current = os.open(root, _FOLDER)
    try:
        for part in path.split("/")[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                    _adopt(current, part, ".")
            deeper = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def look(root: Path, path: str) -> Found:
    """Tell what is at a path now."""
    try:
        with parent_of(root, path) as folder:
            return _look_in(folder, path.rpartition("/")[2])
    except FileNotFoundError:
        return Found("absent")
    except NotADirectoryError:
        return _blocked(root, path)


def _look_in(folder: int, name: str) -> Found:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return Found("link", 0, hashlib.sha256(os.fsencode(os.readlink(name, dir_fd=folder))).hexdigest())
    if stat.S_ISDIR(found.st_mode):
        return Found("folder")
    if not stat.S_ISREG(found.st_mode):
        return Found("special")
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        return Found("file", stat.S_IMODE(found.st_mode), hashlib.file_digest(file, "sha256").hexdigest())


def _blocked(root: Path, path: str) -> Found:
    """Which kind of thing stands where a folder of the path should be."""
    place = root
    for part in path.split("/")[:-1]:
        place = place / part
        if place.is_symlink():
            return Found("behind_link")
        if not place.is_dir():
            return Found("behind_file")
    return Found("absent")


def put(root: Path, path: str, source: Path, wanted: Wanted, mode: int | None, temp: str) -> None:
    """Put a copy of `source` at a path in one step; `temp` is a name beside it, `mode` the bits of the file before."""
    name = path.rpartition("/")[2]
    with parent_of(root, path, create=True) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp, dir_fd=folder)
        if wanted.kind == "link":
            os.symlink(os.readlink(source), temp, dir_fd=folder)
        else:
            _copy(source, folder, temp, wanted.executable, mode)
        _adopt(folder, temp, name)
        crash_point("maid_apply_temp")
        _clear(folder, name)
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def _copy(source: Path, folder: int, temp: str, executable: bool | None, mode: int | None) -> None:
    created = os.open(
        temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o777 if executable else 0o666, dir_fd=folder
    )
    with open(created, "wb") as target, source.open("rb") as file:
        while block := file.read(1 << 20):
            target.write(block)
        if mode is not None:
            if executable is not None:
                mode = mode & ~0o111 | ((mode & 0o444) >> 2 if executable else 0)
            os.fchmod(target.fileno(), mode)
        target.flush()
        os.fsync(target.fileno())


def _clear(folder: int, name: str) -> None:
    """Remove an empty folder, and the empty ones in it; an OSError where there is anything else."""
    try:
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        for _, folders, _, inside in os.fwalk(name, topdown=False, dir_fd=folder):
            for one in folders:
                os.rmdir(one, dir_fd=inside)
        os.rmdir(name, dir_fd=folder)


def _adopt(folder: int, name: str, like: str) -> None:
    """As root, give what was made to the owner of what it replaces, or of the folder that it lies in."""
    if os.geteuid() != 0:
        return
    try:
        owner = os.stat(like, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        owner = os.fstat(folder)
    os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


def take_away(root: Path, path: str, keep: Path) -> None:
    """Remove a file or link, and the folders that are empty then; `keep` and what it lies in stay."""
    with contextlib.suppress(FileNotFoundError), parent_of(root, path) as folder:
        os.unlink(path.rpartition("/")[2], dir_fd=folder)
        os.fsync(folder)
    above = path.rpartition("/")[0]
    while above and not keep.is_relative_to(root / above):
        try:
            with parent_of(root, above) as folder:
                os.rmdir(above.rpartition("/")[2], dir_fd=folder)
        except OSError:  # not empty
            return
        above = above.rpartition("/")[0]


def drop_temp(root: Path, path: str, temp: str) -> None:
    """Remove what an interrupted `put` left."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), parent_of(root, path) as folder:
        os.unlink(temp, dir_fd=folder)
