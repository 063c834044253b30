"""Whatever a maid does to a tree: until the approval the project is as it was, afterwards it is the maid's (D6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from butler.maids.worktree import Applied, Conflict, apply, diff, prepare, remove
from tests.support.projects import everything, files_of, git, make_project, write

NOTES = (".git/worktrees", ".git/objects/")  # the maid's note, and what its commits add
PARTS = ("a", "b b", "ü", "c\nd")
PATHS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from(
    [b"", b"1\n", b"1\n2\n3\n4\n5\n6\n7\n8\n", b"1\n2\n3\n4\n5\n6\n7\nEIGHT", b"\0\xff", b"x\r\n"]
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "mode", "link", "commit"]), PATHS, CONTENTS), min_size=1, max_size=8
)


def edit(root: Path, edits: list[tuple[str, str, bytes]]) -> None:
    """Do what is possible of some edits; what is in the way goes."""
    for action, name, content in edits:
        path = root / name
        if action == "commit":
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "x")
            continue
        if action == "mode":
            if path.is_file() and not path.is_symlink():
                path.chmod(0o755)
            continue
        with contextlib.suppress(NotADirectoryError, FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if action == "remove":
            continue
        for above in [*reversed(path.relative_to(root).parents)][1:]:
            if (root / above).is_symlink() or (root / above).is_file():
                (root / above).unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if action == "link":
            os.symlink(content.decode("utf-8", "replace").replace("\0", "") or "nowhere", path)
        else:
            path.write_bytes(content)


def picture(project: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything in a project that only the person may change."""
    return {name: what for name, what in everything(project).items() if not name.startswith(NOTES)}


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # an example of real repositories is slow to shrink
)
@example(
    start=[("link", "a", b""), ("commit", "a", b"")], loose=[("mode", "keep", b"")], work=[("write", "a/b b", b"1\n")],
    meanwhile=None, is_repository=True,
)  # fmt: skip
@given(start=EDITS, loose=EDITS, work=EDITS, meanwhile=st.one_of(st.none(), EDITS), is_repository=st.booleans())
@example(
    start=[("write", "a/c/d", b""), ("remove", "a/c/d", b"")], loose=[("mode", "keep", b"")],
    work=[("write", "a", b"1\n")], meanwhile=None, is_repository=True,
)  # fmt: skip
def test_a_diff_applied_to_an_untouched_project_equals_the_maids_tree(
    start: list[tuple[str, str, bytes]], loose: list[tuple[str, str, bytes]], work: list[tuple[str, str, bytes]],
    meanwhile: list[tuple[str, str, bytes]] | None, is_repository: bool,
) -> None:  # fmt: skip
    def without_commits(edits: list[tuple[str, str, bytes]]) -> list[tuple[str, str, bytes]]:
        return [one for one in edits if one[0] != "commit"]

    async def scenario(place: Path) -> None:
        if is_repository:
            project = make_project(place / "p", {"keep": "k\n"})
            edit(project, start)
        else:
            project = place / "p"
            write(project, {"keep": "k\n"})
            edit(project, without_commits(start))
        edit(project, without_commits(loose))
        before = picture(project)
        made = await prepare(project, place / "data/maids/run", include_uncommitted=True, number=1)
        assert files_of(made.tree) == files_of(project)
        edit(made.tree, work if is_repository else without_commits(work))
        found = await diff(made)
        assert picture(project) == before
        if meanwhile is not None:
            edit(project, without_commits(meanwhile))
        held = files_of(project)
        outcome = await apply(made, found.sha256)
        if meanwhile is None:
            assert isinstance(outcome, Applied) and files_of(project) == files_of(made.tree)
        elif isinstance(outcome, Conflict):
            assert outcome.kind == "conflict" and outcome.files and files_of(project) == held
        else:
            again = await apply(made, found.sha256)
            assert isinstance(again, Applied) and again.already
        await remove(made, keep=False)
        assert not (project / ".git/worktrees").exists()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder).resolve()))
