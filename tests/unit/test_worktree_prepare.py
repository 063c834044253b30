"""The maid's tree: made from repositories and plain folders, without a trace in the person's (D6)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids import worktree
from butler.maids.worktree import Workspace, prepare
from tests.support.projects import everything, git, make_project, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "maids" / "run"


async def test_a_worktree_has_the_last_commit_and_the_persons_repository_only_gains_its_note(
    tmp_path: Path, folder: Path
) -> None:
    project = make_project(tmp_path / "p", {"a.txt": "a\n", "sub/run.sh": "#!/bin/sh\n", "ü \n.txt": "odd\n"})
    (project / "sub/run.sh").chmod(0o755)
    os.symlink("a.txt", project / "link")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "more")
    write(project, {"a.txt": "edited\n", "new.txt": "n\n"})
    before = everything(project)

    made = await prepare(project, folder, include_uncommitted=False, number=1)

    assert made.kind == "git" and made.tree == made.top == folder / "tree-1"
    assert (made.tree / "a.txt").read_text() == "a\n" and not (made.tree / "new.txt").exists()
    assert os.access(made.tree / "sub/run.sh", os.X_OK) and os.readlink(made.tree / "link") == "a.txt"
    assert git(made.tree, "status", "--porcelain") == ""
    assert git(made.tree, "log", "--format=%s", "-1") == "more\n"
    after = everything(project)
    assert {name for name in after if after[name] != before.get(name)} == {
        name for name in after if name.startswith(".git/worktrees")
    }
    assert before.keys() <= after.keys()


async def test_uncommitted_edits_and_new_files_are_taken_along_when_asked(tmp_path: Path, folder: Path) -> None:
    project = make_project(tmp_path / "p", {"a.txt": "a\n", "b.txt": "b\n", "gone.txt": "g\n", ".gitignore": "*.log\n"})
    write(project, {"a.txt": "edited\n", "new dir/new.txt": "n\n", "x.log": "ignored\n", "b.txt": "staged\n"})
    git(project, "add", "b.txt")
    write(project, {"b.txt": "staged and edited\n"})
    (project / "gone.txt").unlink()
    before = everything(project)

    made = await prepare(project, folder, include_uncommitted=True, number=1)

    tree = {path.relative_to(made.tree).as_posix() for path in made.tree.rglob("*") if path.is_file()}
    assert tree == {".git", ".gitignore", "a.txt", "b.txt", "new dir/new.txt"}
    assert (made.tree / "b.txt").read_text() == "staged and edited\n"
    assert (await worktree.diff(made)).is_empty
    status = git(made.tree, "status", "--porcelain").splitlines()
    assert sorted(status) == [" D gone.txt", " M a.txt", " M b.txt", '?? "new dir/"']
    after = everything(project)
    assert all(after[name] == before[name] for name in before)


async def test_nothing_that_a_projects_configuration_names_is_executed(tmp_path: Path, folder: Path) -> None:
    project = make_project(
        tmp_path / "p", {"a.txt": "a\n", ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n"}
    )
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for name in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv",
                 "diff.evil.command", "diff.external", "merge.evil.driver", "core.fsmonitor"):  # fmt: skip
        git(project, "config", name, str(trap))
    git(project, "config", "filter.evil.required", "true")
    for name in ("post-checkout", "post-index-change", "reference-transaction", "post-merge"):
        (project / ".git/hooks").mkdir(exist_ok=True)
        (project / f".git/hooks/{name}").symlink_to(trap)
    write(project, {"a.txt": "edited\n"})

    made = await prepare(project, folder, include_uncommitted=True, number=1)
    write(made.tree, {"a.txt": "edited by the maid\n"})
    found = await worktree.diff(made)
    await worktree.fingerprint(project)
    await worktree.remove(made, keep=False)

    assert "+edited by the maid" in found.text and "sprung" not in everything(tmp_path)
    git(project, "status")
    assert "sprung" in everything(tmp_path)  # the trap works


async def test_a_folder_inside_of_a_repository_is_worked_on_in_its_place(tmp_path: Path, folder: Path) -> None:
    project = make_project(tmp_path / "p", {"a.txt": "a\n", "sub/b.txt": "b\n"})
    made = await prepare(project / "sub", folder, include_uncommitted=False, number=1)
    assert made.tree == made.top / "sub" and made.origin == project
    write(made.tree, {"b.txt": "B\n", "../a.txt": "A\n"})
    found = await worktree.diff(made)
    assert [change.path for change in found.changes] == ["../a.txt", "b.txt"]
    assert "outside of the project's folder: ../a.txt" in found.notes[0]


@pytest.mark.parametrize("is_repository", [False, True])
async def test_a_project_without_commits_is_copied(tmp_path: Path, folder: Path, is_repository: bool) -> None:
    project = tmp_path / "p"
    write(project, {"a.txt": "a\r\n", "sub/b.txt": "b\n", ".gitattributes": "* text\n"})
    os.symlink("../../outside", project / "link")
    if is_repository:
        git(project, "init", "-q")
    else:
        os.mkfifo(project / "pipe")
    before = everything(project)
    made = await prepare(project, folder, include_uncommitted=True, number=1)
    assert made.kind == "copy" and everything(project) == before
    assert (made.tree / "a.txt").read_bytes() == b"a\r\n" and os.readlink(made.tree / "link") == "../../outside"
    assert (await worktree.diff(made)).is_empty
    assert is_repository or made.notes == ("Not copied, as they are no plain files: pipe.",)


async def test_a_folder_that_is_too_large_to_copy_is_refused(tmp_path: Path, folder: Path) -> None:
    project = tmp_path / "p"
    write(project, {"a": "1", "b": "2", "c": "3"})
    with pytest.raises(ButlerError, match="more than 2 files") as caught:
        await prepare(project, folder, include_uncommitted=False, number=1, max_files=2)
    assert caught.value.code == "too_large"


async def test_bare_repositories_git_folders_and_missing_folders_are_refused(tmp_path: Path, folder: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    project = make_project(tmp_path / "p", {"a": "a"})
    for place, words in ((tmp_path / "bare", "bare repository"), (project / ".git", "git folder"),
                         (tmp_path / "none", "does not exist")):  # fmt: skip
        with pytest.raises(ButlerError, match=words):
            await prepare(place, folder, include_uncommitted=False, number=1)


async def test_a_missing_git_is_told(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "p", {"a": "a"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ButlerError, match="install git"):
        await prepare(project, folder, include_uncommitted=False, number=1)


async def test_a_tree_that_was_half_made_is_made_anew_and_a_workspace_survives_as_json(
    tmp_path: Path, folder: Path
) -> None:
    project = make_project(tmp_path / "p", {"a": "a"})
    first = await prepare(project, folder, include_uncommitted=False, number=1)
    write(first.tree, {"half": "h"})
    again = await prepare(project, folder, include_uncommitted=False, number=1)
    assert again == first and not (again.tree / "half").exists()
    assert Workspace.from_json(json.loads(json.dumps(again.to_json()))) == again
    assert len(list((project / ".git/worktrees").iterdir())) == 1


async def test_a_removed_tree_leaves_nothing_in_the_repository_and_evidence_only_when_asked(
    tmp_path: Path, folder: Path
) -> None:
    project = make_project(tmp_path / "p", {"a": "a"})
    before = everything(project)
    kept = await prepare(project, folder, include_uncommitted=False, number=1)
    other = await prepare(project, folder, include_uncommitted=False, number=2)
    write(other.tree, {"locked/b": "b"})
    (other.tree / "locked").chmod(0o500)
    await worktree.diff(other)
    (kept.top / ".git").write_text("gitdir: elsewhere\n")
    for _ in range(2):
        await worktree.remove(kept, keep=True)
        await worktree.remove(other, keep=False)
    assert everything(project) == before
    assert (kept.tree / "a").exists() and not (kept.tree / ".git").exists()
    assert not other.top.exists() and (other.state / "changes.patch").exists()


async def test_folders_of_unknown_runs_are_swept_with_their_worktrees(tmp_path: Path, folder: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a"})
    before = everything(project)
    await prepare(project, folder, include_uncommitted=False, number=1)
    known = await prepare(project, folder.with_name("known"), include_uncommitted=False, number=1)
    assert await worktree.leftovers(tmp_path / "data", {"known"}) == ("run",)
    assert {path.name for path in folder.parent.glob("*")} == {"known"}
    await worktree.remove(known, keep=False)
    assert everything(project) == before


async def test_an_unfinished_merge_of_the_person_is_taken_along_as_it_stands(tmp_path: Path, folder: Path) -> None:
    project = make_project(tmp_path / "p", {"a.txt": "a\n"})
    git(project, "checkout", "-qb", "other")
    write(project, {"a.txt": "other\n"})
    git(project, "commit", "-qam", "other")
    git(project, "checkout", "-q", "main")
    write(project, {"a.txt": "mine\n"})
    git(project, "commit", "-qam", "mine")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "other")
    before = everything(project)
    made = await prepare(project, folder, include_uncommitted=True, number=1)
    assert (made.tree / "a.txt").read_bytes() == (project / "a.txt").read_bytes()
    write(made.tree, {"a.txt": "settled\n"})
    assert isinstance(await worktree.apply(made, (await worktree.diff(made)).sha256), worktree.Applied)
    assert (project / "a.txt").read_text() == "settled\n"
    assert everything(project)[".git/index"] == before[".git/index"]


async def test_the_persons_own_list_of_ignored_files_and_line_ends_are_kept_to(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    write(home, {".gitconfig": "[core]\n\texcludesFile = ~/ignored\n\tautocrlf = input\n", "ignored": ".env\n"})
    monkeypatch.setenv("HOME", str(home))
    project = make_project(tmp_path / "p", {"a": "a\n"})
    write(project, {".env": "secret\n", "sub/.env": "secret\n", "a": "a\r\n", "new": "n\n"})
    made = await prepare(project, folder, include_uncommitted=True, number=1)
    assert {path.name for path in made.tree.iterdir()} == {".git", "a", "new"}
    before = await worktree.fingerprint(project)
    write(project, {".env": "other\n"})
    assert worktree.outside_changes(before, await worktree.fingerprint(project)) == ()
    write(made.tree, {"a": "b\n"})
    assert isinstance(await worktree.apply(made, (await worktree.diff(made)).sha256), worktree.Applied)
