"""Three-way merge of a maid's work with the person's files as they are now: a plan, or what stands in its way (D6)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from butler.errors import ButlerError
from butler.maids.worktree.changes import Work, shown
from butler.maids.worktree.conflicts import Clash, Side, keep_sides
from butler.maids.worktree.copying import walk_files
from butler.maids.worktree.git import Git, failed, join_z, split_z
from butler.maids.worktree.ground import Found, Wanted, look
from butler.maids.worktree.journal import Journal, Step, plan_folder
from butler.maids.worktree.proving import prove
from butler.maids.worktree.removing import remove_tree
from butler.maids.worktree.store import add_paths, drop_index, is_git_path
from butler.maids.worktree.workspace import Conflict, Workspace, data_folder

_PLAIN = frozenset({"100644", "100755"})
_IN_THE_WAY = "something that is no plain file of the project is in its place"


@dataclass(frozen=True)
class Target:
    """What a path becomes; `side` None: removed. `merged`: it holds edits of both sides."""

    path: str
    found: Found
    ours: Side | None
    side: Side | None
    merged: bool = False


async def plan(workspace: Workspace, work: Work) -> Journal | Conflict:
    """Merge every changed file; give the whole plan with its contents staged, or all conflicts and no plan."""
    store = Git(workspace.git_dir, workspace.git_dir)
    pairs = await _changed(store, workspace.base, work.snapshot.tree)
    found = await asyncio.to_thread(lambda: {path: look(workspace.origin, path) for path in pairs})
    ours, refused = await _ours(workspace, found)
    await prove(store, (side.blob for side in ours.values() if side.mode != "160000"), workspace.state)
    targets: list[Target] = []
    clashes: list[Clash] = []
    for path, (base, theirs) in pairs.items():
        mine = ours.get(path)
        if found[path].kind == "special" or path in refused:
            clashes.append(Clash(path, _IN_THE_WAY, base, None, theirs))
        elif mine == theirs:
            continue
        elif mine == base:
            targets.append(Target(path, found[path], mine, theirs))
        else:
            if found[path].kind == "behind_link":
                clashes.append(Clash(path, _IN_THE_WAY, base, None, theirs))
                continue
            outcome = await _merge(store, workspace.state / "merge", path, base, mine, theirs)
            if isinstance(outcome, Clash):
                clashes.append(outcome)
            else:
                targets.append(Target(path, found[path], mine, outcome, merged=True))
    clashes += await asyncio.to_thread(_obstacles, workspace, targets)
    if clashes:
        files = await keep_sides(workspace, store, clashes)
        names = ", ".join(file.path for file in files[:10])
        return Conflict(
            "conflict",
            f"{len(files)} file(s) were changed in the project and by the maid and can't be merged: {names}. "
            "Nothing was applied. Settle them by hand (both sides are kept), or reject the work.",
            files,
        )
    return await _stage(workspace, work, targets)


async def _changed(store: Git, base: str, theirs: str) -> dict[str, tuple[Side | None, Side | None]]:
    """The sides before and after, by path; a rename is a removal and a new file."""
    out = await store.run(
        "diff-tree", "-r", "-z", "--no-commit-id", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=all",
        base, theirs,
    )  # fmt: skip
    fields = iter(split_z(out))
    pairs = {}
    for field in fields:
        old_mode, new_mode, old, new, _ = field.removeprefix(":").split(" ")
        path = next(fields)
        if is_git_path(path):
            raise ButlerError("forbidden", f"{path!r} lies in a git folder, which a maid may never change.")
        pairs[path] = (_side(old_mode, old), _side(new_mode, new))
    return pairs


def _side(mode: str, blob: str) -> Side | None:
    return None if mode == "000000" else Side(mode, blob)


async def _ours(workspace: Workspace, found: Mapping[str, Found]) -> tuple[dict[str, Side], list[str]]:
    """The person's side of each path, as git would store it, in an index of Butler's own; and what git refuses."""
    index = workspace.state / "ours.index"
    await asyncio.to_thread(drop_index, index)
    git = Git(workspace.origin, workspace.git_dir, index)
    await git.run("read-tree", workspace.base)
    present = [path for path, what in found.items() if what.kind in {"file", "link"}]
    gone = [path for path, what in found.items() if what.kind not in {"file", "link"}]
    await git.run("update-index", "--force-remove", "-z", "--stdin", stdin=join_z(gone))
    refused = await add_paths(git, present)
    sides = {}
    for entry in split_z(await git.run("ls-files", "-z", "--stage")):
        facts, _, path = entry.partition("\t")
        if path in found:
            mode, blob, _ = facts.split(" ")
            sides[path] = Side(mode, blob)
    return sides, refused


async def _merge(
    store: Git, folder: Path, path: str, base: Side | None, ours: Side | None, theirs: Side | None
) -> Side | Clash:
    if ours is None or theirs is None:
        reason = (
            "changed in the project, removed by the maid" if ours else "removed in the project, changed by the maid"
        )
        return Clash(path, reason, base, ours, theirs)
    sides = [side for side in (base, ours, theirs) if side is not None]
    if any(side.mode not in _PLAIN for side in sides):
        return Clash(path, "a link on one side", base, ours, theirs)
    mode = ours.mode if base is None or theirs.mode == base.mode else theirs.mode
    if base is not None and ours.blob == base.blob:
        return Side(mode, theirs.blob)
    if ours.blob == theirs.blob or (base is not None and theirs.blob == base.blob):
        return Side(mode, ours.blob)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    for name, side in (("ours", ours), ("base", base), ("theirs", theirs)):
        place = folder / name
        if side is None:
            await asyncio.to_thread(place.write_bytes, b"")
        else:
            await store.run("cat-file", "blob", side.blob, into=place)
    arguments = ("merge-file", "--stdout", "-L", "project", "-L", "before", "-L", "maid")
    out = folder / "merged"
    answer = await store.call(*arguments, *(str(folder / name) for name in ("ours", "base", "theirs")), into=out)
    if answer.code == 0:
        blob = await store.run("hash-object", "-w", "--no-filters", str(out))
        return Side(mode, blob.decode().strip())
    if answer.code < 128:
        reason = "both sides changed the same lines" if base else "both sides added it, with different content"
        return Clash(path, reason, base, ours, theirs, await asyncio.to_thread(out.read_bytes))
    if b"binary" in answer.err:
        return Clash(path, "a binary file that both sides changed", base, ours, theirs)
    raise failed(arguments, answer)


def _obstacles(workspace: Workspace, targets: list[Target]) -> list[Clash]:
    """Folders where a file has to be, and files where a folder has to be, that the plan itself does not remove."""
    removed = {target.path for target in targets if target.side is None}
    clashes = []
    for target in targets:
        if target.side is None:
            blocked = target.found.kind == "folder"
        elif target.found.kind == "folder":
            below = walk_files(workspace.origin / target.path, data_folder(workspace.folder))
            names = (f"{target.path}/{name}" for name in below if not name.endswith("/"))  # git knows no empty folders
            blocked = any(name not in removed for name in names)
        else:
            parts = target.path.split("/")
            above = {"/".join(parts[:count]) for count in range(1, len(parts))}
            blocked = target.found.kind.startswith("behind_") and not above & removed
        if blocked:
            clashes.append(Clash(target.path, _IN_THE_WAY, None, target.ours, target.side))
    return clashes


async def _stage(workspace: Workspace, work: Work, targets: list[Target]) -> Journal:
    """Write all new contents as they will be on disk, line ends and encodings included."""
    folder = plan_folder(workspace)
    await asyncio.to_thread(remove_tree, folder)
    await asyncio.to_thread((folder / "new").mkdir, parents=True)
    index = workspace.state / "result.index"
    await asyncio.to_thread(drop_index, index)
    git = Git(workspace.top, workspace.git_dir, index)
    await git.run("read-tree", work.snapshot.tree)
    kept = [target for target in targets if target.side is not None]
    lines = [f"{target.side.mode} {target.side.blob}\t{target.path}" for target in kept if target.side]
    await git.run("update-index", "-z", "--index-info", stdin=join_z(lines))
    await prove(git, (target.side.blob for target in kept if target.side and target.merged), folder)
    names = join_z([target.path for target in kept])
    await git.run("checkout-index", "--force", "-z", "--stdin", f"--prefix={folder / 'new'}/", stdin=names)
    steps = await asyncio.to_thread(_steps, workspace, targets)
    merged = tuple(shown(target.path) for target in targets if target.merged)
    return Journal(work.sha256, secrets.token_hex(8), steps, merged)


def _steps(workspace: Workspace, targets: list[Target]) -> tuple[Step, ...]:
    """Removals first and from below, so that a folder can become a file and a file a folder."""
    removed = [Step(t.path, t.found, Wanted("absent")) for t in targets if t.side is None]
    puts = []
    for target in targets:
        if target.side is None:
            continue
        new = look(plan_folder(workspace) / "new", target.path)
        executable = None if target.ours and target.ours.mode == target.side.mode else target.side.mode == "100755"
        wanted = Wanted("link", new.sha256) if new.kind == "link" else Wanted("file", new.sha256, executable)
        # What is in the way now is removed by then.
        before = Found("absent") if target.found.kind.startswith("behind_") else target.found
        puts.append(Step(target.path, before, wanted))
    return (*sorted(removed, key=lambda s: s.path, reverse=True), *sorted(puts, key=lambda s: s.path))
