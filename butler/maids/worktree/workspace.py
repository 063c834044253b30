"""Where a maid works, and what applying its work can end in; plain data that the database can hold (D6)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Workspace:
    """A tree of a maid's own; all paths are absolute.

    `kind`: ``git`` is a linked worktree of the project's repository, ``copy`` a copy of a folder without one.
    `project_root` is the person's folder; `origin` the top of what it belongs to (the repository, else itself).
    `folder` belongs to the maid run; `top` is the maid's tree as a whole, `tree` the working directory inside it.
    `base` is the tree object that the work starts from; `head` the commit it was made from, if any.
    `notes` say what is not part of the tree. `wanted` are files of `tree` that checks name: they belong to the change
    also where git ignores them. `key` and `seal` tell what Butler wrote beside the tree; they are kept away from there.
    """

    kind: Literal["git", "copy"]
    project_root: Path
    origin: Path
    folder: Path
    number: int
    top: Path
    tree: Path
    base: str
    head: str | None = None
    common: Path | None = None
    notes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    key: str = ""
    seal: str = ""

    @property
    def state(self) -> Path:
        """The folder of Butler's own files for this tree: private git folder, patch, journal."""
        return state_folder(self.folder, self.number)

    @property
    def git_dir(self) -> Path:
        """The private git folder: no hooks, filters or settings of the project."""
        return self.state / "git"

    @property
    def prefix(self) -> str:
        """The project's place inside of its repository, with a ``/`` at the end, or empty."""
        inside = self.tree.relative_to(self.top).as_posix()
        return "" if inside == "." else f"{inside}/"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The workspace that `to_json` wrote down."""
        paths = {name: Path(data[name]) for name in ("project_root", "origin", "folder", "top", "tree")}
        common = Path(data["common"]) if data["common"] is not None else None
        lists = {name: tuple(data.get(name, ())) for name in ("notes", "wanted")}
        return cls(**{**data, **paths, **lists, "common": common})


def state_folder(folder: Path, number: int) -> Path:
    """Where Butler keeps its own files about tree `number` of a maid run."""
    return folder / f"state-{number}"


def data_folder(folder: Path) -> Path:
    """Butler's data folder, from that of a maid run: ``DATA_DIR/maids/MAID_RUN_ID``."""
    return folder.parent.parent


@dataclass(frozen=True)
class Applied:
    """The work is in the person's tree; `already`: it had been before. `merged` were edited on both sides."""

    paths: tuple[str, ...]
    merged: tuple[str, ...] = ()
    already: bool = False


@dataclass(frozen=True)
class ConflictFile:
    """A file that could not be merged, with its sides as files where they exist; `merged_text` has the markers."""

    path: str
    reason: str
    base: Path | None = None
    ours: Path | None = None
    theirs: Path | None = None
    merged: Path | None = None
    merged_text: str | None = None


@dataclass(frozen=True)
class Conflict:
    """Nothing was applied. ``changed``: the work is not the one that was approved; else files need a person.

    `ours` is the person's side, `theirs` the maid's.
    """

    kind: Literal["changed", "conflict"]
    detail: str
    files: tuple[ConflictFile, ...] = ()
