"""Files of the tree: found by a path that stays inside once links are resolved, read up to a bound (D8)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from butler.maids.verify.findings import CheckError, Finding, compared, in_bytes, shown
from config.maid_types import FileCheck

READ_LIMIT = 8 * 1024 * 1024
"""Bytes of a file that are looked at."""


class LeadsOut(Exception):
    """A link in the tree leads out of it: the maid's doing, and nothing is looked at there."""


def place_in(tree: Path, path: str) -> Path:
    """Give the resolved place of `path`, which is relative to the tree.

    Raises:
        CheckError: it is absolute, leaves the tree as it is written, or is no path at all.
        LeadsOut: it leaves the tree by a link.
    """
    if not path or "\0" in path or os.path.isabs(path):
        raise CheckError(f"The path {path!r} is not one inside the tree.")
    if os.path.normpath(path).split(os.sep, 1)[0] == os.pardir:
        raise CheckError(f"The path {path!r} leads out of the tree.")
    root = os.path.realpath(tree)
    found = os.path.realpath(os.path.join(root, path))
    if found != root and not found.startswith(root.rstrip(os.sep) + os.sep):
        raise LeadsOut(f"A link leads out of the tree, so {path!r} is not looked at. Put a file in its place.")
    return Path(found)


def read(place: Path) -> tuple[bytes, bool]:
    """Give the first bytes of a regular file and whether there are more.

    Raises:
        OSError: it can't be read.
        IsADirectoryError, ValueError: it is no regular file; nothing that could block is opened for good.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is no regular file")
        data = file.read(READ_LIMIT + 1)
    return data[:READ_LIMIT], len(data) > READ_LIMIT


def check_file(tree: Path, check: FileCheck) -> Finding:
    """Make one file check; blocks, so it is run in a thread.

    Raises:
        CheckError: the path is none inside the tree.
    """
    try:
        place = place_in(tree, check.path)
    except LeadsOut as error:
        return Finding("failed", str(error))
    if not check.exists:
        is_there = os.path.lexists(place) or os.path.lexists(Path(tree, check.path))
        return Finding("failed", "There is such a file.") if is_there else Finding("passed", "There is no such file.")
    try:
        data, is_cut = read(place)
    except (OSError, ValueError) as error:
        return Finding("failed", _why(place, error))
    wanted = check.contains
    if wanted is None:
        return Finding("passed", "There is such a file.")
    if in_bytes(wanted) in data:
        return Finding("passed", "The file has the text.")
    if not data:
        return Finding("failed", "The file is empty.")
    read_of = f"first {READ_LIMIT} bytes of the file do" if is_cut else "file does"
    return Finding("failed", f"The {read_of} not have the text. It reads:\n{shown(data, 7_000)}")


def check_exact_file(tree: Path, path: str, expect: str) -> Finding:
    """Hold the whole of a file against a text; blocks, so it is run in a thread.

    Raises:
        CheckError: the path is none inside the tree.
    """
    try:
        place = place_in(tree, path)
    except LeadsOut as error:
        return Finding("failed", str(error))
    try:
        data, is_cut = read(place)
    except (OSError, ValueError) as error:
        return Finding("failed", _why(place, error))
    return compared(expect, data, is_cut=is_cut)


def _why(place: Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "There is no such file."
    if place.is_dir():
        return "It is a folder."
    if isinstance(error, ValueError) or not place.is_file():
        return "It is no regular file."
    return f"The file can't be read: {error.strerror}."
