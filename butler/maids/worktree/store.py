"""A private git folder beside a maid's tree: it reads the project's objects and knows none of its programs (D6).

Filters, hooks, file-system monitors, diff and merge drivers live in a repository's configuration; here there is none
of it, so a hostile project (or a maid that edits its configuration) has nothing that git would run.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.git import Git, failed, join_z, split_z
from butler.maids.worktree.ignoring import RULES, Uncovered, listing_of_nested, uncover
from butler.maids.worktree.repository import Repository

PRODUCTS = ("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", "node_modules/")
"""Never part of a change where the project does not track them: what running its tests leaves behind."""

_IGNORING = "Ignoring path "

MAX_BYTES = 512 * 1024 * 1024
MAX_FILES = 50_000


@dataclass(frozen=True)
class Snapshot:
    """A tree object, and sentences about what is not in it; `left_out` are wanted files that could not be taken."""

    tree: str
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


async def make_store(git_dir: Path, repository: Repository | None, data: Path) -> None:
    """Create the private git folder; with a repository its objects can be read through it.

    Without one all bytes are kept as they are; with one, line ends and encodings follow its attributes.
    `data` is Butler's own folder, which is never part of a tree even where it lies inside of the project.
    """
    form = repository.object_format if repository else "sha1"
    await asyncio.to_thread(git_dir.mkdir, parents=True, exist_ok=True)
    init = ("init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(git_dir))
    await Git(git_dir).run(*init)
    store = Git(git_dir)
    await store.run("config", "core.bare", "false")
    for name, value in (repository.settings if repository else {}).items():
        await store.run("config", name, value)
    await asyncio.to_thread(_write_info, git_dir, repository, data)


def _write_info(git_dir: Path, repository: Repository | None, data: Path) -> None:
    info = git_dir / "info"
    info.mkdir(exist_ok=True)
    # The last word on attributes: `diff` could hide text from the person who approves.
    attributes = (
        "* !diff !filter !merge" if repository else "* -text -ident !working-tree-encoding !diff !filter !merge"
    )
    info.joinpath("attributes").write_text(attributes + "\n", "utf-8")
    own = b""
    if repository is not None:
        if "\n" in str(repository.objects):
            raise ButlerError("invalid_request", "The project's path has a line break in it. Move it to a plain name.")
        git_dir.joinpath("objects", "info").mkdir(parents=True, exist_ok=True)
        git_dir.joinpath("objects", "info", "alternates").write_bytes(os.fsencode(repository.objects) + b"\n")
        lists = [repository.ignores, repository.common / "info" / "exclude"]
        own = b"\n".join(path.read_bytes() for path in lists if path is not None and path.is_file())
        if data.is_relative_to(repository.top):
            inside = data.relative_to(repository.top).as_posix()
            own += b"\n/" + os.fsencode(re.sub(r"([\\*?\[])", r"\\\1", inside)) + b"/"
    info.joinpath("exclude").write_bytes("\n".join(PRODUCTS).encode() + b"\n" + own + b"\n")


def copy_index(source: Path, target: Path) -> None:
    """Copy an index with its time of change: git needs it to know which entries it may trust."""
    drop_index(target)
    shutil.copy2(source, target)


def drop_index(index: Path) -> None:
    """Remove an index of Butler's own, and the lock that a killed git left beside it."""
    index.unlink(missing_ok=True)
    index.with_name(index.name + ".lock").unlink(missing_ok=True)


async def snapshot(
    git: Git,
    *,
    follow_nested: bool,
    wanted: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
) -> Snapshot:
    """Write the files of the working tree `git` as a tree object; its index has to hold what they started from.

    Ignored files stay out. Submodules stay as they are. With `follow_nested` it is a maid's tree: the files of other
    repositories inside are taken as plain files (else such repositories stay out), and only what the project itself
    ignores is ignored, not what the maid's own rules say. Files in `wanted` (from the top) are taken also where they
    are ignored.

    Raises:
        ButlerError: ``too_large``: more new or changed files, or more bytes in them, than allowed.
    """
    stage = _staged(split_z(await git.run("ls-files", "-z", "--stage")))
    dirty = split_z(await git.run("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all"))
    links = {name for name, mode in stage.items() if mode == "160000"}
    hidden = split_z(await git.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"))
    uncovered = Uncovered()
    if follow_nested:
        rules = [name for name, mode in stage.items() if mode.startswith("100") and name.rpartition("/")[2] == RULES]
        uncovered = await uncover(git, hidden, rules)
    fresh, notes = await _untracked(git, follow_nested, uncovered.nested)
    fresh += uncovered.files
    in_links = tuple(f"{name}/" for name in links)
    fresh += [name for name in wanted if name not in stage and not (in_links and name.startswith(in_links))]
    refused = sorted({name for name in fresh if is_git_path(name)})
    if refused:
        notes.append(f"Files in git folders are never part of the change: {_some(refused)}.")
    names = sorted(({*dirty, *fresh} - {*refused}) - links)
    present, gone = await asyncio.to_thread(_sort_out, git.cwd, names, max_bytes, max_files)
    if gone:
        await git.run("update-index", "--force-remove", "-z", "--stdin", stdin=join_z(gone))
    ignored = await add_paths(git, present)
    if ignored:
        notes.append(f"Git takes no links of these names, they are not part of the change: {_some(ignored)}.")
    notes += await asyncio.to_thread(_filled, git.cwd, links)
    taken = {*present} - {*ignored}
    if hidden := sorted({*hidden} - taken - uncovered.names):
        notes.append(f"Ignored files are not part of the change: {_some(hidden)}.")
    left_out = tuple(name for name in wanted if name not in stage and name not in taken)
    return Snapshot((await git.run("write-tree")).decode().strip(), tuple(notes), left_out)


async def add_paths(git: Git, names: list[str]) -> list[str]:
    """Put the files and links of these names into the index; give those that git refused without failing."""
    arguments = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    answer = await git.call(*arguments, stdin=join_z(names))
    if answer.code:
        raise failed(arguments, answer)
    told = os.fsdecode(answer.err).splitlines()
    return [line.removeprefix(_IGNORING) for line in told if line.startswith(_IGNORING)]


def _staged(entries: list[str]) -> dict[str, str]:
    """The mode of each path of an index."""
    found = (entry.partition("\t") for entry in entries)
    return {path: facts.partition(" ")[0] for facts, _, path in found}


async def _untracked(git: Git, follow_nested: bool, more: Collection[str]) -> tuple[list[str], list[str]]:
    """New files, and notes on other repositories found between them; `more` are such repositories that are known."""
    found: list[str] = []
    nested = list(more)
    pending = [(git, ""), *((_inner(git, name), name) for name in nested)]
    while pending:
        place, prefix = pending.pop()
        listing = listing_of_nested(place) if prefix else ("ls-files", "-z", "--others", "--exclude-standard")
        for name in split_z(await place.run(*listing)):
            if not name.endswith("/"):
                found.append(prefix + name)
                continue
            nested.append(prefix + name)
            if follow_nested:
                pending.append((_inner(git, prefix + name), prefix + name))
    if not nested:
        return found, []
    told = "taken as plain files, without their history" if follow_nested else "not part of the tree"
    return found, [f"Other repositories inside are {told}: {_some(sorted(nested))}."]


def _inner(git: Git, name: str) -> Git:
    """Another repository inside; an index that does not exist is an empty one."""
    return Git(git.cwd / name, git.git_dir, git.git_dir / "no-index" if git.git_dir else None, git.within)


def _sort_out(root: Path, names: list[str], max_bytes: int, max_files: int) -> tuple[list[str], list[str]]:
    """Which of the names are files or links now, and which are gone; bounded."""
    present, gone, size = [], [], 0
    real: dict[str, bool] = {"": True}

    def is_real(folder: str) -> bool:
        if folder not in real:
            parent = folder.rpartition("/")[0]
            real[folder] = is_real(parent) and stat.S_ISDIR(_mode(root / folder)[0])
        return real[folder]

    for name in names:
        mode, length = _mode(root / name) if is_real(name.rpartition("/")[0]) else (0, 0)
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            present.append(name)
            size += length
        else:
            gone.append(name)
    if size > max_bytes or len(present) > max_files:
        raise ButlerError(
            "too_large",
            f"{root} has {len(present)} new or changed files with {size} bytes; at most {max_files} files and "
            f"{max_bytes} bytes are taken. Remove what is not source, let git ignore it, or commit it first.",
        )
    return present, gone


def _mode(path: Path) -> tuple[int, int]:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    return found.st_mode, found.st_size


def _filled(root: Path, links: set[str]) -> list[str]:
    full = sorted(name for name in links if (root / name).is_dir() and any((root / name).iterdir()))
    return [f"Files in submodules are not part of the change: {_some(full)}."] if full else []


def is_git_path(name: str) -> bool:
    """Whether a path has a part that some file system takes for ``.git``."""
    for part in name.replace("\\", "/").split("/"):
        visible = "".join(letter for letter in part if unicodedata.category(letter) not in {"Cf", "Mn"})
        plain = unicodedata.normalize("NFKC", visible).casefold().partition(":")[0].rstrip(". ")
        if plain in {".git", "git~1"}:
            return True
    return False


def _some(names: list[str]) -> str:
    shown = ", ".join(os.fsencode(name).decode("utf-8", "backslashreplace") for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
