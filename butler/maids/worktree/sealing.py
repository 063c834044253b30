"""Butler's own files beside a tree are the ones that Butler wrote: they say what is approved and applied (D6).

A maid without a sandbox has the rights to change them. A seal over the private git folder and a key, both only in the
database, tell whether it did, before git reads a setting from there and before a plan is carried out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.preparing import base_index
from butler.maids.worktree.workspace import Workspace

TAMPERED = "Butler's own files beside the maid's folder were changed, so its work can't be trusted."


class Tampered(ButlerError):
    """Something else than Butler wrote into its files."""

    def __init__(self, detail: str = TAMPERED) -> None:
        super().__init__("forbidden", detail)


def sealed(workspace: Workspace) -> Workspace:
    """The workspace with a new key and the seal of what lies beside its tree now; for the database, not for files."""
    return replace(workspace, key=secrets.token_hex(16), seal=_seal_of(workspace))


def require_seal(workspace: Workspace) -> None:
    """Look whether git would read what Butler wrote. Raises Tampered where not."""
    if workspace.seal and not hmac.compare_digest(workspace.seal, _seal_of(workspace)):
        raise Tampered


def is_sealed(workspace: Workspace) -> bool:
    """Whether nothing but Butler has written into its files."""
    try:
        require_seal(workspace)
    except (Tampered, OSError):
        return False
    return True


def with_mark(workspace: Workspace, text: str) -> str:
    """A text with a line before it that only Butler can write."""
    return f"{_mark(workspace, text)}\n{text}"


def without_mark(workspace: Workspace, text: str) -> str:
    """The text that was marked. Raises Tampered where it is another one."""
    mark, _, rest = text.partition("\n")
    if not hmac.compare_digest(mark.encode(), _mark(workspace, rest).encode()):
        raise Tampered
    return rest


def _mark(workspace: Workspace, text: str) -> str:
    return hmac.new(workspace.key.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _seal_of(workspace: Workspace) -> str:
    whole = hashlib.sha256()
    for path in (base_index(workspace), *_files(workspace.git_dir)):
        mode = path.lstat().st_mode
        whole.update(os.fsencode(path.relative_to(workspace.state)) + b"\0%o\0" % stat.S_IFMT(mode))
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _files(git_dir: Path) -> Iterator[Path]:
    """All but the objects themselves, which git adds to; their list of other stores is a setting."""
    for folder, folders, names in os.walk(git_dir):
        place = Path(folder)
        if place == git_dir / "objects":
            folders[:] = [name for name in folders if name == "info"]
        folders.sort()
        # A link to a folder is listed among the folders.
        yield from sorted(place / name for name in (*names, *folders) if name in names or (place / name).is_symlink())
