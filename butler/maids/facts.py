"""Gathers what routing decides by: the files of a project, and which maids could start now (D2)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.conditions import Health, ProjectFiles
from butler.maids.worktree.git import Git
from config.maid_types import MaidDefinition, MaidRegistryFile
from config.route_entries import MAX_FILES

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__"})
MAX_LISTING = 16 * 1024 * 1024
GIT_SECONDS = 20.0
KEY_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


async def project_files(root: Path, limit: int = MAX_FILES) -> ProjectFiles:
    """The first `limit` files of a project: of a repository those that git does not ignore, else by a walk.

    Args:
        root: the project's folder, links resolved. Contents are not read, links not followed.
    """
    listed = await _listed_by_git(root)
    if listed is None:
        return await asyncio.to_thread(lambda: _bounded(_walk(root), limit))
    return _bounded(listed, limit)


def _bounded(paths: Iterable[str], limit: int) -> ProjectFiles:
    found: list[str] = []
    for path in paths:
        if len(found) == limit:
            return ProjectFiles(tuple(found), is_cut=True)
        found.append(path)
    return ProjectFiles(tuple(found))


async def _listed_by_git(root: Path) -> list[str] | None:
    """Paths relative to `root`, or None where git knows nothing of the folder."""
    with tempfile.TemporaryDirectory(prefix="butler-files-") as folder:
        listing = Path(folder) / "files"
        try:
            answer = await Git(root).call(
                "ls-files", "-z", "--cached", "--others", "--exclude-standard", into=listing, within=GIT_SECONDS
            )
        except ButlerError:
            return None
        if answer.code:
            return None
        return await asyncio.to_thread(_read_listing, listing)


def _read_listing(listing: Path) -> list[str]:
    with listing.open("rb") as handle:
        data = handle.read(MAX_LISTING)
    # The last part is empty, or cut.
    return list(dict.fromkeys(os.fsdecode(part) for part in data.split(b"\0")[:-1]))


def _walk(root: Path) -> Iterator[str]:
    """The files of a folder, those of each folder by name before its folders."""
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            with os.scandir(root / prefix) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:  # closed to us, or gone meanwhile: it has no files that a maid could use
            continue
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                yield prefix + entry.name
            elif entry.name not in SKIPPED_FOLDERS:
                pending.append(f"{prefix}{entry.name}/")


def find_program(maid: MaidDefinition, environ: Mapping[str, str]) -> str | None:
    """The path of the program that a maid starts; None when there is none.

    A relative path with a folder belongs to the project's tree, so it is given back as it is.
    """
    program = maid.command_template[0].replace("{{", "{").replace("}}", "}")
    if "/" in program and not Path(program).is_absolute():
        return program
    return shutil.which(program, path=environ.get("PATH", os.defpath))


def missing_variables(maid: MaidDefinition, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names that the maid's row wants from the environment and that are not set there."""
    names = [*maid.env, *([maid.endpoint.api_key_env] if maid.endpoint and maid.endpoint.api_key_env else [])]
    return tuple(name for name in dict.fromkeys(names) if not environ.get(name))


def health_of(maid: MaidDefinition, environ: Mapping[str, str]) -> Health:
    """Whether a maid could start now, as far as its registry row and this machine tell."""
    if not maid.enabled:
        return Health(False, "it is disabled")
    if find_program(maid, environ) is None:
        return Health(False, f"there is no program {maid.command_template[0]!r}")
    missing = [name for name in missing_variables(maid, environ) if _is_needed(name, maid)]
    if missing:
        return Health(False, f"not set: {', '.join(missing)}")
    if maid.sandbox == "bubblewrap" and shutil.which("bwrap", path=environ.get("PATH", os.defpath)) is None:
        return Health(False, "there is no program 'bwrap' for its sandbox")
    return Health(True)


def _is_needed(name: str, maid: MaidDefinition) -> bool:
    """Whether a maid hardly works without a variable: a key. Others, such as LANG, are passed on where they are set."""
    return bool(KEY_NAME.search(name)) or (maid.endpoint is not None and name == maid.endpoint.api_key_env)


def health_of_all(registry: MaidRegistryFile, environ: Mapping[str, str]) -> dict[str, Health]:
    """The health of every maid by its id."""
    return {maid.maid_id: health_of(maid, environ) for maid in registry.maids}
