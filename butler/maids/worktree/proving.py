"""What git reads under a name is what the name stands for: git itself does not look again when it reads (D6).

A maid without a sandbox can put other bytes under an object's name, into Butler's private git folder or into the
project's own: the person would see another change than the one that is applied.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from butler.maids.worktree.git import Git, split_z
from butler.maids.worktree.sealing import Tampered

_PIECE = 1024 * 1024
_SUBMODULE = "160000"


async def prove_trees(store: Git, base: str, theirs: str, scratch: Path) -> None:
    """Read every folder and file in which two trees differ, as the patch between them and a merge will.

    Raises:
        Tampered: something else than what the name stands for, or nothing that can be read.
    """
    await prove(store, (base, theirs), scratch)
    # Equal folders are not read by anything; of the others the list tells the names, from above.
    out = await store.run(
        "diff-tree", "-r", "-t", "-z", "--no-commit-id", "--raw", "--no-renames", "--no-abbrev",
        "--ignore-submodules=all", base, theirs,
    )  # fmt: skip
    names = set()
    for facts in split_z(out)[::2]:
        old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
        names |= {name for mode, name in ((old_mode, old), (new_mode, new)) if mode != _SUBMODULE}
    await prove(store, names, scratch)


async def prove(store: Git, names: Iterable[str], scratch: Path) -> None:
    """Read the objects of these names (full, hex; nought is none) and compare. Raises Tampered."""
    asked = sorted({name for name in names if name.strip("0")})
    if not asked:
        return
    whole = scratch / "objects"
    stdin = "".join(f"{name}\n" for name in asked).encode()
    try:
        answer = await store.call("cat-file", "--batch", stdin=stdin, into=whole)
        if answer.code or not await asyncio.to_thread(_all_true, whole, asked):
            raise Tampered("Git's store holds other bytes than a name in it stands for, so the work can't be trusted.")
    finally:
        await asyncio.to_thread(whole.unlink, missing_ok=True)


def _all_true(whole: Path, asked: list[str]) -> bool:
    with whole.open("rb") as file:
        return all(_is_true(file, name) for name in asked)


def _is_true(file: IO[bytes], name: str) -> bool:
    """Whether the next object is the one that was asked for: ``NAME TYPE SIZE``, its bytes, a line break."""
    words = file.readline().decode("ascii", "replace").split()
    if len(words) != 3 or words[0] != name:
        return False
    left = int(words[2])
    found = hashlib.new("sha1" if len(name) == 40 else "sha256", f"{words[1]} {left}\0".encode(), usedforsecurity=False)
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            return False
        found.update(piece)
        left -= len(piece)
    return file.read(1) == b"\n" and found.hexdigest() == name
