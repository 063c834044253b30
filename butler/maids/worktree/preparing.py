"""Makes the tree that a maid works in: a linked worktree, or a copy where there is no repository (D6)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.copying import COPY_BYTES, COPY_FILES, copy_files, walk_files
from butler.maids.worktree.git import Git
from butler.maids.worktree.removing import forget_worktree, remove_tree
from butler.maids.worktree.repository import Repository, find_repository, has_files, listed_files
from butler.maids.worktree.store import MAX_BYTES, MAX_FILES, Snapshot, copy_index, drop_index, make_store, snapshot
from butler.maids.worktree.workspace import Workspace, data_folder, state_folder


async def prepare(
    project_root: Path,
    folder: Path,
    *,
    include_uncommitted: bool,
    number: int,
    max_files: int = COPY_FILES,
    max_bytes: int = COPY_BYTES,
) -> Workspace:
    """Make a fresh tree from the project; neither the person's files nor index, branches or stash are touched (D6).

    Args:
        project_root: an existing folder; a repository, a folder inside of one, or no repository at all.
        folder: where everything of this maid run lives.
        include_uncommitted: whether edits and new files that are not committed (nor ignored) are in the tree too.
        number: which tree of the run this is; a half-made one of the same number is made anew.
        max_files, max_bytes: the bound on a copy, and on uncommitted files.

    Raises:
        ButlerError: no such folder, a bare or broken repository, too large, git is missing or failed.
    """
    if not await asyncio.to_thread(project_root.is_dir):
        raise ButlerError("not_found", f"The project folder {project_root} does not exist. Check the path.")
    root = Path(await asyncio.to_thread(os.path.realpath, project_root))
    folder = Path(await asyncio.to_thread(os.path.realpath, folder))
    if root.is_relative_to(data_folder(folder)):
        raise ButlerError("invalid_request", f"{project_root} is in Butler's own data folder and can't be a project.")
    repository = await find_repository(root)
    top = folder / f"tree-{number}"
    state = state_folder(folder, number)
    if repository is not None and repository.common.is_dir():
        await asyncio.to_thread(forget_worktree, repository.common, top)
    await asyncio.to_thread(remove_tree, top)
    await asyncio.to_thread(remove_tree, state)
    await asyncio.to_thread(state.mkdir, parents=True)
    if repository is not None and await has_files(repository):
        return await _linked(repository, root, folder, number, include_uncommitted)
    return await _copied(repository, root, folder, number, max_files, max_bytes)


async def _linked(
    repository: Repository, root: Path, folder: Path, number: int, include_uncommitted: bool
) -> Workspace:
    top, state = folder / f"tree-{number}", state_folder(folder, number)
    head = repository.head or ""
    git_dir = state / "git"
    await make_store(git_dir, repository, data_folder(folder))
    own = Git(git_dir, git_dir)
    base = Snapshot((await own.run("rev-parse", f"{head}^{{tree}}")).decode().strip())
    if include_uncommitted:
        base = await _person_snapshot(repository, git_dir, head)
    workspace = Workspace(
        kind="git", project_root=root, origin=repository.top, folder=folder, number=number, top=top,
        tree=top / repository.prefix, base=base.tree, head=head, common=repository.common, notes=base.notes,
    )  # fmt: skip
    await asyncio.to_thread(remember, workspace)  # before git knows the worktree, so that a sweep finds it
    await Git(repository.top).run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(top), head)
    place = Git(top, git_dir, base_index(workspace))
    await place.run("read-tree", base.tree)
    await place.run("checkout-index", "--all", "--force", "--index", "--quiet")
    await asyncio.to_thread(workspace.tree.mkdir, parents=True, exist_ok=True)
    await _give_index(workspace)
    return workspace


async def _person_snapshot(repository: Repository, git_dir: Path, head: str) -> Snapshot:
    """The person's files as a tree object in the private store; their index is only copied."""
    index = git_dir / "person.index"
    git = Git(repository.top, git_dir, index)
    source = repository.git_dir / "index"
    usable = False
    if await asyncio.to_thread(source.is_file):
        await asyncio.to_thread(copy_index, source, index)
        usable = (await git.call("ls-files", "-z", "--stage")).code == 0  # a split index can't be read from a copy
    if not usable:
        await asyncio.to_thread(drop_index, index)
        await git.run("read-tree", head)
    return await snapshot(git, follow_nested=False, max_bytes=MAX_BYTES, max_files=MAX_FILES)


async def _give_index(workspace: Workspace) -> None:
    """Let the maid's own git see the tree as the person's git would: HEAD, with uncommitted edits on top."""
    pointer = await asyncio.to_thread((workspace.top / ".git").read_bytes)
    admin = Path(os.fsdecode(pointer.removeprefix(b"gitdir: ").removesuffix(b"\n")))
    await asyncio.to_thread(copy_index, base_index(workspace), admin / "index")
    await Git(workspace.top, workspace.git_dir, admin / "index").run("read-tree", "-m", workspace.head or "HEAD")


async def _copied(
    repository: Repository | None, root: Path, folder: Path, number: int, max_files: int, max_bytes: int
) -> Workspace:
    top, state = folder / f"tree-{number}", state_folder(folder, number)
    if repository is not None and repository.prefix == "":
        data = data_folder(folder)  # it may lie inside of the project
        names = [name for name in await listed_files(repository) if not (root / name).is_relative_to(data)]
        notes = await asyncio.to_thread(copy_files, root, top, names, max_files, max_bytes)
    else:
        notes = await asyncio.to_thread(
            lambda: copy_files(root, top, walk_files(root, data_folder(folder)), max_files, max_bytes)
        )
    await make_store(state / "git", None, data_folder(folder))
    index = state / "base.index"
    git = Git(top, state / "git", index)
    await git.run("add", "--all", "--force", ".")
    base = (await git.run("write-tree")).decode().strip()
    workspace = Workspace(
        kind="copy", project_root=root, origin=root, folder=folder, number=number, top=top, tree=top, base=base,
        notes=notes,
    )  # fmt: skip
    await asyncio.to_thread(remember, workspace)
    return workspace


def base_index(workspace: Workspace) -> Path:
    """The index that describes the tree as it was handed out."""
    return workspace.state / "base.index"


def remember(workspace: Workspace) -> None:
    """Write the workspace beside its tree, for sweeps that have no database."""
    workspace.state.joinpath("workspace.json").write_text(json.dumps(workspace.to_json()), "utf-8")


__all__ = ["base_index", "prepare", "remember"]
