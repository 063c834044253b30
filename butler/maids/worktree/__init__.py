"""The tree of a maid's own: made from the project, compared with it, applied on approval, taken away (D6)."""

from __future__ import annotations

from butler.maids.worktree.applying import apply
from butler.maids.worktree.changes import diff
from butler.maids.worktree.mending import mend
from butler.maids.worktree.outside import Fingerprint, fingerprint, outside_changes
from butler.maids.worktree.preparing import prepare
from butler.maids.worktree.removing import leftovers, remove
from butler.maids.worktree.workspace import Applied, Conflict, ConflictFile, Workspace

__all__ = [
    "Applied",
    "Conflict",
    "ConflictFile",
    "Fingerprint",
    "Workspace",
    "apply",
    "diff",
    "fingerprint",
    "leftovers",
    "mend",
    "outside_changes",
    "prepare",
    "remove",
]
