"""What the person's repository looks like, read without running anything of its configuration (D6)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.git import Git, failed, split_z

_COPIED = r"^core\.(autocrlf|eol|filemode|symlinks)$"
_VALUE = re.compile(r"[a-zA-Z0-9]{0,10}")


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree; `prefix` is where the project lies in it (``sub/folder/`` or empty).

    `common` is its git folder, `git_dir` the one of this working tree, `objects` its object store.
    `settings` are the few that only say how bytes and modes are stored.
    """

    top: Path
    prefix: str
    common: Path
    git_dir: Path
    objects: Path
    head: str | None
    object_format: str
    settings: Mapping[str, str]


async def find_repository(project_root: Path) -> Repository | None:
    """The repository that a project belongs to, or None.

    Raises:
        ButlerError: a bare or broken repository, or the inside of a git folder.
    """
    git = Git(project_root)
    answer = await git.call("rev-parse", "--is-inside-work-tree", "--is-bare-repository", "--is-inside-git-dir")
    if answer.code:
        if b"(or any " in answer.err:
            return None
        raise failed(("rev-parse",), answer)
    if answer.out.split() != [b"true", b"false", b"false"]:
        raise ButlerError(
            "invalid_request",
            f"{project_root} is a bare repository or lies inside a git folder. Maids need a folder with files: name a "
            "clone or worktree of it as the project.",
        )
    asked = (("--show-toplevel",), ("--git-common-dir",), ("--absolute-git-dir",), ("--git-path", "objects"))
    told = [project_root / await _line(git, *arguments) for arguments in asked]
    root, top, common, git_dir, objects = await asyncio.to_thread(_resolved, project_root, *told)
    if not root.is_relative_to(top):
        raise ButlerError(
            "invalid_request", f"{project_root} is not inside the working tree of its repository ({top})."
        )
    inside = root.relative_to(top).as_posix()
    head = await git.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return Repository(
        top=top,
        prefix="" if inside == "." else f"{inside}/",
        common=common,
        git_dir=git_dir,
        objects=objects,
        head=head.out.decode().strip() or None,
        object_format=await _line(git, "--show-object-format"),
        settings=await _settings(git),
    )


async def has_files(repository: Repository) -> bool:
    """Whether the last commit has files where the project lies."""
    if repository.head is None:
        return False
    if not repository.prefix:
        return True
    listed = await Git(repository.top).run("ls-tree", "-z", "--full-tree", repository.head, repository.prefix)
    return bool(listed)


async def listed_files(repository: Repository, within: float = 60.0) -> list[str]:
    """Paths (from the top) of all files that are tracked or neither tracked nor ignored; no content is read."""
    git = Git(repository.top)
    out = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", within=within)
    return sorted(set(split_z(out)))


def _resolved(*paths: Path) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


async def _line(git: Git, *arguments: str) -> str:
    out = await git.run("rev-parse", *arguments)
    return os.fsdecode(out.removesuffix(b"\n"))


async def _settings(git: Git) -> dict[str, str]:
    answer = await git.call("config", "-z", "--get-regexp", _COPIED)
    pairs = (part.partition("\n") for part in split_z(answer.out))
    return {name: value for name, _, value in pairs if _VALUE.fullmatch(value)}
