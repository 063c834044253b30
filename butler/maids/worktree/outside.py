"""Tells whether the person's tree changed while a maid worked: evidence for ``wrong_directory`` (D6, D7)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from butler.maids.worktree.changes import shown
from butler.maids.worktree.copying import walk_files
from butler.maids.worktree.git import Git
from butler.maids.worktree.repository import Repository, find_repository, listed_files

MAX_LISTED = 100_000
_OWN_FILES = ("config", "config.worktree", "hooks/*", "info/attributes", "info/exclude")
_Mark = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Fingerprint:
    """State of a project at one moment: a mark per file, an object per ref; `is_complete` unless there were too many.

    Ignored files are not in it, nor are branches of other repositories, which any fetch moves. Names of files are
    relative to the top of the repository, or to the project.
    """

    refs: Mapping[str, str]
    files: Mapping[str, _Mark]
    is_complete: bool = True


async def fingerprint(project_root: Path, *, data_dir: Path | None = None, max_files: int = MAX_LISTED) -> Fingerprint:
    """Take the state of the person's project without reading or changing a file.

    Args:
        project_root: the project; of a repository all of it is looked at, also its settings and hooks.
        data_dir: Butler's own folder, left out where it lies inside.
        max_files: how many files are looked at at most.
    """
    repository = await find_repository(project_root)
    if repository is None:
        marked = await asyncio.to_thread(_walked, project_root, data_dir, max_files)
        return Fingerprint({}, *marked)
    names = await listed_files(repository)
    files, is_complete = await asyncio.to_thread(_marks, repository.top, names, data_dir, max_files)
    files |= await asyncio.to_thread(_own, repository)
    return Fingerprint(await _refs(repository), files, is_complete)


def outside_changes(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """What differs between two states: paths, ``.git/…`` for settings and hooks, and names of refs.

    It may have been the maid or the person; names are reported, never undone.
    """
    files = _differing(before.files, after.files)
    if not (before.is_complete and after.is_complete):
        files = [name for name in files if name in before.files and name in after.files]
    return tuple([shown(name) for name in files] + _differing(before.refs, after.refs))


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


async def _refs(repository: Repository) -> dict[str, str]:
    git = Git(repository.top)
    listed = (await git.run("for-each-ref", "--format=%(refname) %(objectname)")).decode("utf-8", "backslashreplace")
    refs = dict(line.rsplit(" ", 1) for line in listed.splitlines() if not line.startswith("refs/remotes/"))
    branch = await git.call("symbolic-ref", "--quiet", "HEAD")
    return {**refs, "HEAD": branch.out.decode("utf-8", "backslashreplace").strip() or repository.head or ""}


def _walked(root: Path, data_dir: Path | None, max_files: int) -> tuple[dict[str, _Mark], bool]:
    return _marks(root, walk_files(root, data_dir or root), None, max_files)


def _marks(root: Path, names: Iterable[str], skip: Path | None, max_files: int) -> tuple[dict[str, _Mark], bool]:
    files = {}
    rest = iter(names)
    for name in itertools.islice(rest, max_files):
        path = root / name
        if skip is not None and path.is_relative_to(skip):
            continue
        mark = _mark(path)
        if mark is not None:
            files[name] = mark
    return files, next(rest, None) is None


def _own(repository: Repository) -> dict[str, _Mark]:
    found = (path for pattern in _OWN_FILES for path in repository.common.glob(pattern))
    marks = {f".git/{path.relative_to(repository.common).as_posix()}": _mark(path) for path in found}
    return {name: mark for name, mark in marks.items() if mark is not None}


def _mark(path: Path) -> _Mark | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
