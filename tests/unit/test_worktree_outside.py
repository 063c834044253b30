"""Changes in the person's own tree are seen, and a maid's work in its own tree is none (D6)."""

from __future__ import annotations

from pathlib import Path

from butler.maids.worktree import fingerprint, outside_changes, prepare
from tests.support.projects import everything, git, make_project, write


async def test_a_maid_that_stays_in_its_tree_changes_nothing_outside(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await prepare(project, tmp_path / "d/maids/run", include_uncommitted=True, number=1)
    picture, before = everything(project), await fingerprint(project)
    assert everything(project) == picture
    write(made.tree, {"a": "A\n"})
    git(made.tree, "commit", "-qam", "work")
    assert outside_changes(before, await fingerprint(project)) == ()


async def test_edits_new_files_branches_hooks_and_settings_are_seen(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n", "b": "b\n", ".gitignore": "*.log\n"})
    before = await fingerprint(project)
    write(project, {"a": "A\n", "new": "n\n", "x.log": "ignored\n"})
    (project / "b").unlink()
    git(project, "branch", "other")
    git(project, "config", "core.fsmonitor", "evil")
    write(project, {".git/hooks/pre-commit": "evil\n"})
    after = await fingerprint(project)
    assert outside_changes(before, after) == (
        ".git/config",
        ".git/hooks/pre-commit",
        "a",
        "b",
        "new",
        "refs/heads/other",
    )
    git(project, "checkout", "-q", "other")
    assert outside_changes(after, await fingerprint(project)) == ("HEAD",)


async def test_a_plain_folder_is_looked_at_up_to_a_bound(tmp_path: Path) -> None:
    project, data = tmp_path / "p", tmp_path / "p/data"
    write(project, {"a": "a", "b": "b", "data/x": "x"})
    before = await fingerprint(project, data_dir=data)
    write(project, {"b": "bb", "c": "c", "data/x": "y"})
    assert outside_changes(before, await fingerprint(project, data_dir=data)) == ("b", "c")
    bounded = await fingerprint(project, data_dir=data, max_files=1)
    assert not bounded.is_complete and outside_changes(before, bounded) == ()
