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
_PERSONAL = r"^core\.(autocrlf|eol|filemode|symlinks|excludesfile)$"
_VALUE = re.compile(r"[a-zA-Z0-9]{0,10}")


@dataclass(frozen=True)
class Repository:
    """A repository with a working tree; `prefix` is where the project lies in it (``sub/folder/`` or empty).

    `common` is its git folder, `git_dir` the one of this working tree, `objects` its object store.
    `settings` are the few that only say how bytes and modes are stored; `ignores` is the person's own list of what
    git ignores everywhere.
    """

    top: Path
    prefix: str
    common: Path
    git_dir: Path
    objects: Path
    head: str | None
    object_format: str
    settings: Mapping[str, str]
    ignores: Path | None = None


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
    personal, ignores = await _personal(git)
    head = await git.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return Repository(
        top=top,
        prefix="" if inside == "." else f"{inside}/",
        common=common,
        git_dir=git_dir,
        objects=objects,
        head=head.out.decode().strip() or None,
        object_format=await _line(git, "--show-object-format"),
        settings=_harmless(personal | await _settings(git, _COPIED)),
        ignores=ignores,
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
    more = (f"--exclude-from={repository.ignores}",) if repository.ignores else ()
    out = await git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", *more, within=within)
    return sorted(set(split_z(out)))


def _resolved(*paths: Path) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


async def _line(git: Git, *arguments: str) -> str:
    out = await git.run("rev-parse", *arguments)
    return os.fsdecode(out.removesuffix(b"\n"))


async def _settings(git: Git, names: str, *source: str) -> dict[str, str]:
    answer = await git.call("config", *source, "-z", "--get-regexp", names)
    return {name: value for name, _, value in (part.partition("\n") for part in split_z(answer.out))}


def _harmless(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if _VALUE.fullmatch(value)}


async def _personal(git: Git) -> tuple[dict[str, str], Path | None]:
    """The same settings from the configuration of the person that Butler runs as, and their list of ignored files."""
    files, default = await asyncio.to_thread(_personal_files)
    settings: dict[str, str] = {}
    for file in files:
        settings |= await _settings(git, _PERSONAL, "--file", str(file), "--includes")
    named = settings.pop("core.excludesfile", "")
    return settings, await asyncio.to_thread(_existing, named, default)


def _personal_files() -> tuple[list[Path], Path]:
    home = Path(os.path.expanduser("~"))
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    return [file for file in (folder / "config", home / ".gitconfig") if file.is_file()], folder / "ignore"


def _existing(named: str, default: Path) -> Path | None:
    path = Path(os.path.expanduser(named)) if named else default
    return path if path.is_absolute() and path.is_file() else None
