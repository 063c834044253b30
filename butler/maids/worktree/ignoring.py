"""Which files git may leave out of a maid's change: those that the project itself ignores, not the maid (D6)."""

from __future__ import annotations

import asyncio
import os
import posixpath
import secrets
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.git import Git, failed, join_z, split_z
from butler.maids.worktree.removing import remove_tree

RULES = ".gitignore"
AT_ONCE = 100
"""Folders on one command line."""
_READ_BY_GIT = frozenset({RULES, ".gitattributes", ".gitmodules", ".mailmap"})


@dataclass(frozen=True)
class Uncovered:
    """What only rules that are not the project's own hide: `names` as they were given, the new `files` behind them,
    and other repositories (`nested`, with a ``/`` at the end)."""

    names: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()


async def uncover(git: Git, hidden: Collection[str], rules: Iterable[str]) -> Uncovered:
    """Of what git ignores in a tree, that which it would not ignore by the project's own rules.

    Args:
        git: the tree, with the index that it was handed out with.
        hidden: what is ignored in it now; folders that are ignored as a whole end with a ``/``.
        rules: the ``.gitignore`` files of that index.
    """
    if not hidden or git.index is None:
        return Uncovered()
    place = git.index.parent / f"rules-{secrets.token_hex(4)}"
    await asyncio.to_thread(place.mkdir)
    try:
        names = join_z(list(rules))
        await git.run("checkout-index", "--force", "-z", "--stdin", f"--prefix={place}/", stdin=names)
        project = Git(place, git.git_dir, git.index, git.within, literal=False)
        found = await _not_ignored(project, hidden)
        folders = [name for name in found if name.endswith("/")]
        inside: list[str] = []
        for start in range(0, len(folders), AT_ONCE):
            batch = folders[start : start + AT_ONCE]
            inside += split_z(await git.run(*listing_of_nested(git), "--", *batch))
        files = [name for name in (*found, *inside) if not name.endswith("/")]
        nested = await _not_ignored(project, [name for name in inside if name.endswith("/")])
        return Uncovered(frozenset(found), tuple(await _not_ignored(project, files)), tuple(nested))
    finally:
        await asyncio.to_thread(remove_tree, place)


async def _not_ignored(project: Git, names: Collection[str]) -> list[str]:
    if not names:
        return []
    # Only of a folder that is there git knows that it is one.
    await asyncio.to_thread(_make_folders, project.cwd, [name for name in names if name.endswith("/")])
    arguments = ("check-ignore", "--no-index", "-z", "--stdin")
    answer = await project.call(*arguments, stdin=join_z([f"./{name}" for name in names]))
    if answer.code > 1:
        raise failed(arguments, answer)
    ignored = set(split_z(answer.out))
    return [name for name in names if f"./{name}" not in ignored]


def _make_folders(root: Path, names: list[str]) -> None:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)


def _products(git: Git) -> Path:
    return (git.git_dir or git.cwd / ".git") / "info" / "exclude"


def listing_of_nested(git: Git) -> tuple[str, ...]:
    """How new files of a repository inside of the tree are listed: its own rules are the maid's."""
    return ("ls-files", "-z", "--others", f"--exclude-from={_products(git)}")


def places_of(top: Path, prefix: str, wanted: Iterable[str]) -> list[str]:
    """Where files of the project (at `prefix`) that checks name are, from the top of the tree: as written, and with
    links resolved."""
    places: dict[str, None] = {}
    root = os.path.realpath(top)
    for path in wanted:
        plain = posixpath.normpath(posixpath.join(prefix, path))
        real = os.path.relpath(os.path.realpath(os.path.join(root, plain)), root)
        for name in (plain, real):
            is_inside = name.startswith(prefix) and name not in (".", "..") and not name.startswith(("../", "/"))
            if is_inside and _is_file(root, name):
                places[name] = None
    return list(places)


def _is_file(root: str, name: str) -> bool:
    """Whether there is a file or link, in a folder that is reached without a link."""
    path = os.path.join(root, name)
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    folder = os.path.dirname(path)
    return (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and os.path.realpath(folder) == folder


def refuse_traps(top: Path) -> None:
    """Look for what git would wait on for ever: a pipe or the like where it reads a file of its own.

    Raises:
        ButlerError: ``invalid_request``: there is one.
    """
    pending = [(str(top), False)]
    while pending:
        folder, in_git = pending.pop()
        try:
            entries = list(os.scandir(folder))
        except PermissionError:  # git can't look into it either
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, in_git or entry.name == ".git"))
            elif (in_git or entry.name in _READ_BY_GIT) and _is_trap(entry, in_git):
                name = os.path.relpath(entry.path, top)
                raise ButlerError("invalid_request", f"{name!r} is no plain file, and git reads it. Remove it.")


def _is_trap(entry: os.DirEntry[str], in_git: bool) -> bool:
    if entry.is_file(follow_symlinks=False):
        return False
    if not entry.is_symlink():
        return True
    return in_git and os.path.exists(entry.path) and not (entry.is_file() or entry.is_dir())
