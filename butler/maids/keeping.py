"""Trees of maids that are kept as evidence when their task is over, where a row asks for it (`keep_tree`, D6, D9).

They lie in ``DATA_DIR/kept-trees/MAID_RUN_ID``, apart from the folders of tasks under way: what sweeps those never
meets them. That a folder is there is all that is known of it; nothing of it stands in the database.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from butler.maids.store import MaidRun
from butler.maids.worktree.removing import remembered, remove_tree
from butler.redact import Redactor
from butler.types import Json
from config.maid_types import KeepTree

log = structlog.get_logger("butler.maids")
FOLDER = "kept-trees"
HALF_MADE = ".new"
DRAFT = "draft"
MOST_KEPT = 20
"""Tasks whose trees are kept; the oldest go first."""
LONGEST_SECONDS = 14 * 24 * 3600.0
MOST_BYTES = 1024 * 1024 * 1024
"""Of all kept trees together."""
MOST_BYTES_EACH = 256 * 1024 * 1024
MOST_ENTRIES_EACH = 20_000
MOST_READ = 16 * 1024 * 1024
"""Bytes of a file that is looked through for secrets; a larger one is not kept."""


class NotKept(Exception):
    """The tree can't be kept; the text says why."""


@dataclass(frozen=True)
class Kept:
    """What is kept of one task; `bytes` of all its files, `since` in seconds since the epoch."""

    maid_run_id: str
    folder: Path
    trees: tuple[Path, ...]
    bytes: int
    since: float


def wants_keeping(run: MaidRun, keep: KeepTree) -> bool:
    """Whether the trees of a task that is over are evidence."""
    return keep == "always" or (keep == "failed" and run.status == "failed")


def keep_trees(folder: Path, data: Path, redactor: Redactor) -> int:
    """Move the trees of a task out of its folder; give how many there were. It blocks.

    Only files, folders and links are kept, secrets that Butler knows are masked in them, and what can't be read goes;
    so does what git stores. Homes, prompts and Butler's own files beside the trees stay behind. A link that stands in
    the place of a folder is never followed.

    Raises:
        NotKept: it is too large, or too deep, or a link stands in the place where trees are kept.
        OSError: the disk is full, or the like.
    """
    tops = [workspace.top for _, workspace in remembered(folder) if _is_folder(workspace.top)]
    place = data / FOLDER
    half, whole = place / f"{folder.name}{HALF_MADE}", place / folder.name
    if not tops and not half.is_dir():
        return 0
    for own in (place, half):  # a half that a crash left has trees that are nowhere else
        if not _is_folder(own):
            _make(own)
    try:
        for top in tops:
            top.chmod(0o700)
            top.rename(half / top.name)
        for tree in list(half.iterdir()):
            if _is_folder(tree):
                _clean(tree, redactor)
            else:
                remove_tree(tree)
    except BaseException:
        remove_tree(half)
        raise
    remove_tree(whole)
    os.utime(half)
    half.rename(whole)
    return len(tops)


def kept_of(data: Path, maid_run_id: str) -> Kept | None:
    """What is kept of a task; None also where it is being taken away just now."""
    folder = data / FOLDER / maid_run_id
    if os.sep in maid_run_id or maid_run_id.endswith(HALF_MADE) or not _is_folder(folder.parent, folder):
        return None
    with suppress(FileNotFoundError):
        trees = _trees(folder)
        try:
            size = sum(found.st_size for tree in trees for _, found in _walk(tree) if stat.S_ISREG(found.st_mode))
        except NotKept:
            size = MOST_BYTES  # somebody has filled it since
        return Kept(maid_run_id, folder, tuple(trees), size, folder.stat().st_mtime)
    return None


def all_kept(data: Path) -> list[Kept]:
    """All that is kept, the newest first."""
    place = data / FOLDER
    names = [entry.name for entry in place.iterdir()] if _is_folder(place) else []
    found = [kept for name in names if (kept := kept_of(data, name)) is not None]
    return sorted(found, key=lambda kept: (-kept.since, kept.maid_run_id))


def forget_kept(data: Path, maid_run_id: str) -> bool:
    """Remove what is kept of a task; False where there was nothing."""
    kept = kept_of(data, maid_run_id)
    return kept is not None and _take_away(kept.folder)


def trim_kept(data: Path, known: Collection[str] | None = None, *, older_than: float = LONGEST_SECONDS) -> list[str]:
    """Remove what is too old, too many or too large together, and what half-made ones left; give the tasks' ids.

    Args:
        known: the tasks that there are; what is kept of others goes. None: not looked at.
    """
    place = data / FOLDER
    for entry in list(place.iterdir()) if _is_folder(place) else []:
        with suppress(FileNotFoundError):
            if entry.name.endswith(HALF_MADE) and time.time() - entry.lstat().st_mtime > 3600:
                _take_away(entry)
    gone, room = [], MOST_BYTES
    for count, kept in enumerate(all_kept(data)):
        room -= kept.bytes
        is_strange = known is not None and kept.maid_run_id not in known
        if is_strange or count >= MOST_KEPT or room < 0 or time.time() - kept.since >= older_than:
            gone += [kept.maid_run_id] if _take_away(kept.folder) else []
    return gone


def _take_away(folder: Path) -> bool:
    """Remove a folder; False where somebody else does so. The server and a shell may clean at the same time."""
    claimed = folder.with_name(f"{secrets.token_hex(8)}{HALF_MADE}")
    try:
        if not folder.is_symlink():
            os.utime(folder)  # a crash from here on leaves what looks just made; it goes an hour later
        folder.rename(claimed)
    except FileNotFoundError:
        return False
    remove_tree(claimed)
    return True


def kept_documents(data: Path, maid_run_id: str) -> list[Json]:
    """What is kept of a task, for JSON; its size is not measured here."""
    folder = data / FOLDER / maid_run_id
    if os.sep in maid_run_id or not _is_folder(folder.parent, folder):
        return []
    with suppress(FileNotFoundError):
        until = folder.stat().st_mtime + LONGEST_SECONDS
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
        return [{"path": str(path), "kept_until": moment} for path in _trees(folder)]
    return []


def _is_folder(*paths: Path) -> bool:
    """Whether all are folders themselves; a maid may have put a link to somebody else's there."""
    return all(path.is_dir() and not path.is_symlink() for path in paths)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise NotKept(f"{folder} is no folder of Butler's") from None


def _trees(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith("tree-") and _is_folder(path))


def _is_of_git(path: Path) -> bool:
    """Whether it is where git stores things: compressed, so that no secret would be found in it."""
    return path.name == ".git" or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _clean(top: Path, redactor: Redactor) -> None:
    size = 0
    for path, found in list(_walk(top)):
        told = path.name + (os.readlink(path) if stat.S_ISLNK(found.st_mode) else "")
        is_plain = stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode) or stat.S_ISREG(found.st_mode)
        if not is_plain or redactor.text(told) != told or found.st_size > MOST_READ or _is_of_git(path):
            remove_tree(path)
        elif stat.S_ISREG(found.st_mode) and path.parent.is_dir():
            size += found.st_size
            if size > MOST_BYTES_EACH:
                raise NotKept("it is too large")
            _mask(path, found, redactor, top.parent / DRAFT)


def _mask(path: Path, found: os.stat_result, redactor: Redactor, draft: Path) -> None:
    """Mask secrets in a file. One that has them is written anew, beside the tree and then put in its place: it may be a
    link to a file of the person's, and a kill must not lose it."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except PermissionError:
        remove_tree(path)
        return
    masked = redactor.text(text)
    if masked != text or found.st_nlink > 1:
        remove_tree(draft)
        draft.write_bytes(masked.encode("utf-8", "surrogateescape"))
        draft.replace(path)
    path.chmod(0o600 | (found.st_mode & 0o100))


def _walk(top: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder, folders opened for their owner first. Raises NotKept where it is too deep or much."""
    folders, count = [top], 0
    while folders:
        folder = folders.pop()
        if len(os.fsencode(folder)) > 3_000:
            raise NotKept("its folders lie too deep inside of each other")
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > MOST_ENTRIES_EACH:
                    raise NotKept("it has too many files")
                found = entry.stat(follow_symlinks=False)
                yield Path(entry.path), found
                if stat.S_ISDIR(found.st_mode):
                    folders.append(Path(entry.path))
