"""Small projects with real git repositories, and pictures of everything in a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    **{f"GIT_{who}_{what}": f"{what}@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(place: Path, *arguments: str) -> str:
    """Run git as a person would and give what it prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=place, env={**os.environ, **_ENVIRONMENT}, check=True, capture_output=True, text=True
    )
    return done.stdout


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def make_project(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A repository with one commit of the given files."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def everything(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Kind, mode and content of all that is below a folder, git's own files included."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for path in root.rglob("*"):
        name, mode = path.relative_to(root).as_posix(), path.lstat().st_mode & 0o777
        if path.is_symlink():
            found[name] = ("link", 0, os.fsencode(os.readlink(path)))
        elif path.is_file():
            found[name] = ("file", mode, path.read_bytes())
        else:
            found[name] = ("folder", mode, b"")
    return found


def files_of(root: Path) -> dict[str, tuple[str, bool, bytes]]:
    """Kind, executable bit and content of all files and links, git's own left out."""
    return {
        name: (kind, bool(mode & 0o100), content)
        for name, (kind, mode, content) in everything(root).items()
        if kind != "folder" and ".git" not in name.split("/")
    }
