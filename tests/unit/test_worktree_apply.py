"""Approved work reaches the person's tree by a three-way merge: whole or not at all, and nothing else (D6)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.worktree import Applied, Conflict, Workspace, apply, diff, prepare, remove
from tests.support.projects import everything, files_of, git, make_project, write

LINES = "".join(f"line {number}\n" for number in range(20))


async def _work(project: Path, tmp_path: Path, *, include_uncommitted: bool = False) -> Workspace:
    folder = tmp_path / "data/maids/run"
    return await prepare(project, folder, include_uncommitted=include_uncommitted, number=1)


async def _approved(made: Workspace) -> Applied | Conflict:
    return await apply(made, (await diff(made)).sha256)


async def test_work_of_every_kind_is_applied_once_and_leaves_index_and_commits_alone(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "p",
        {"edit": LINES, "gone/deep/x": "x\n", "old": LINES * 2, "run": "r\n", "f": "f\n", "d/a": "a\n", "bin": b"\0\1",
         "odd \n ü": "o\n"},
    )  # fmt: skip
    os.symlink("edit", project / "link")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "link")
    made = await _work(project, tmp_path)
    tree = made.tree
    write(tree, {"edit": LINES.replace("line 3", "LINE 3"), "bin": b"\0\2\3", "odd \n ü": "O\n", "new/ü": "n\n"})
    (tree / "gone/deep/x").unlink()
    (tree / "old").rename(tree / "fresh")
    (tree / "run").chmod(0o755)
    (tree / "f").unlink()
    write(tree, {"f/inside": "i\n"})
    (tree / "d/a").unlink()
    (tree / "d").rmdir()
    write(tree, {"d": "a file now\n"})
    (tree / "link").unlink()
    os.symlink("../../elsewhere", tree / "link")
    git(tree, "add", "-A")
    git(tree, "-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "-qm", "the maid commits")
    found = await diff(made)
    index, refs = (project / ".git/index").read_bytes(), git(project, "for-each-ref")

    applied = await apply(made, found.sha256)

    assert isinstance(applied, Applied) and not applied.already and not applied.merged
    assert files_of(project) == files_of(tree)
    assert not list(project.glob("gone*"))
    assert (project / ".git/index").read_bytes() == index and git(project, "for-each-ref") == refs
    renamed = next(change for change in found.changes if change.status == "renamed")
    assert (renamed.old_path, renamed.path) == ("old", "fresh")
    assert next(change for change in found.changes if change.path == "bin").binary
    write(project, {"edit": "the person goes on\n"})
    again = await apply(made, found.sha256)
    assert isinstance(again, Applied) and again.already and again.paths == applied.paths
    assert (project / "edit").read_text() == "the person goes on\n"
    await remove(made, keep=False)
    assert await apply(made, found.sha256) == again
    other = await apply(made, "0" * 64)
    assert isinstance(other, Conflict) and other.kind == "changed"


async def test_edits_and_commits_that_the_person_made_meanwhile_are_merged(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": LINES, "b": "b\n", "c": "c\n", "same": "s\n"})
    (project / "a").chmod(0o640)
    made = await _work(project, tmp_path)
    write(made.tree, {"a": LINES.replace("line 2\n", "maid\n"), "b": "B\n", "same": "S\n"})
    write(project, {"a": LINES.replace("line 17\n", "person\n"), "c": "C\n", "same": "S\n"})
    git(project, "commit", "-qam", "meanwhile")
    applied = await _approved(made)
    assert applied == Applied(("a", "b"), ("a",))
    assert (project / "a").read_text() == LINES.replace("line 2\n", "maid\n").replace("line 17\n", "person\n")
    assert (project / "a").stat().st_mode & 0o777 == 0o640
    assert git(project, "status", "--porcelain") == " M a\n M b\n"


async def test_one_conflict_keeps_the_whole_tree_untouched_and_both_sides(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "p", {"text": "1\n", "bin": b"\0a", "gone": "g\n", "cut": "c\n", "fine": "f\n", "deep/x": "x\n"}
    )
    made = await _work(project, tmp_path)
    write(made.tree, {"text": "maid\n", "bin": b"\0maid", "gone": "G\n", "fine": "F\n", "both": "m\n", "way": "m\n"})
    write(made.tree, {"deep/x": "X\n"})
    (made.tree / "cut").unlink()
    write(project, {"text": "person\n", "bin": b"\0person", "cut": "C\n", "both": "p\n", "way/x": "p\n"})
    (project / "gone").unlink()
    (project / "deep").rename(tmp_path / "moved")
    (project / "deep").symlink_to(tmp_path / "moved")
    before = everything(tmp_path / "p"), everything(tmp_path / "moved")

    outcome = await _approved(made)

    assert isinstance(outcome, Conflict) and outcome.kind == "conflict"
    assert (everything(tmp_path / "p"), everything(tmp_path / "moved")) == before
    files = {file.path: file for file in outcome.files}
    assert files.keys() == {"text", "bin", "gone", "cut", "both", "way", "deep/x"}
    text = files["text"]
    assert text.merged_text == "<<<<<<< project\nperson\n=======\nmaid\n>>>>>>> maid\n"
    assert text.ours and text.theirs and text.base and text.merged
    assert [path.read_text() for path in (text.base, text.ours, text.theirs)] == ["1\n", "person\n", "maid\n"]
    binary = files["bin"]
    assert binary.ours and binary.theirs and binary.theirs.read_bytes() == b"\0maid" and binary.merged is None
    assert files["gone"].ours is None and files["cut"].theirs is None

    git(project, "checkout", "-q", "text", "bin", "gone", "cut")
    (project / "both").unlink()
    (project / "way/x").unlink()
    (project / "way").rmdir()
    (project / "deep").unlink()
    (tmp_path / "moved").rename(project / "deep")
    assert isinstance(await _approved(made), Applied)


async def test_work_that_changed_after_the_approval_is_not_applied(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await _work(project, tmp_path)
    write(made.tree, {"a": "good\n"})
    found = await diff(made)
    write(made.tree, {"a": "evil\n"})
    outcome = await apply(made, found.sha256)
    assert isinstance(outcome, Conflict) and outcome.kind == "changed"
    assert (project / "a").read_text() == "a\n"


async def test_line_ends_stay_as_the_persons_attributes_say(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "p",
        {".gitattributes": "*.bat text eol=crlf\n*.txt text\n", "a.bat": "one\r\ntwo\r\n", "raw": "x\r\n"},
    )
    made = await _work(project, tmp_path)
    assert (made.tree / "a.bat").read_bytes() == b"one\r\ntwo\r\n"
    write(made.tree, {"a.bat": "one\r\nTWO\r\n", "raw": "x\r\ny\r\n"})
    assert (await diff(made)).text.count("\n-") == 3  # two headers, and the one line
    assert isinstance(await _approved(made), Applied)
    assert files_of(project) == files_of(made.tree)


async def test_a_copied_folder_gets_exactly_the_bytes_of_the_maid(tmp_path: Path) -> None:
    project = tmp_path / "p"
    write(project, {"a.txt": "a\r\nb\n", ".gitattributes": "* text=auto ident\n", "b/c": "c\n"})
    made = await _work(project, tmp_path)
    write(made.tree, {"a.txt": "$Id$\r\nb\r\n", "new": b"\xff\0", "__pycache__/a.pyc": "no"})
    (made.tree / "b/c").unlink()
    found = await diff(made)
    assert found.notes == ("Ignored files are not part of the change: __pycache__/.",)
    assert isinstance(await _approved(made), Applied)
    assert (project / "a.txt").read_bytes() == b"$Id$\r\nb\r\n" and (project / "new").read_bytes() == b"\xff\0"
    assert files_of(project).keys() == {"a.txt", ".gitattributes", "new"} and project.is_dir()


async def test_git_folders_are_out_of_reach_for_a_maid(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await _work(project, tmp_path)
    write(made.tree, {"sub/.GIT/config": "evil\n", ".git /x": "evil\n", "git~1/x": "evil\n", "ok": "ok\n"})
    os.symlink("ok", made.tree / ".gitmodules")
    nested = make_project(made.tree / "nested", {"n": "n\n"})
    assert (nested / ".git").is_dir()
    found = await diff(made)
    assert {change.path for change in found.changes} == {"ok", "nested/n"}
    assert "Other repositories inside" in found.notes[0] and "git folders" in found.notes[1]
    assert found.notes[2].endswith("links of these names, they are not part of the change: .gitmodules.")
    before = everything(project / ".git")
    assert isinstance(await _approved(made), Applied)
    assert everything(project / ".git") == before
    assert files_of(project).keys() == {"a", "ok", "nested/n"}


async def test_attributes_of_a_maid_do_not_hide_text_and_a_long_diff_is_cut(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await _work(project, tmp_path)
    write(made.tree, {".gitattributes": "* -diff\n", "a": "hidden?\n", "z": "ü" * 100_000})
    found = await diff(made)
    assert "+hidden?" in found.text and not found.is_cut
    short = await diff(made, text_bytes=500)
    assert short.is_cut and len(short.text.encode()) <= 500 and short.sha256 == found.sha256
    again = await diff(made)
    assert again == found and again.patch.read_bytes() == found.patch.read_bytes()


async def test_submodules_and_their_files_stay_out(tmp_path: Path) -> None:
    library = make_project(tmp_path / "lib", {"l": "l\n"})
    project = make_project(tmp_path / "p", {"a": "a\n"})
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(project, "commit", "-qm", "submodule")
    write(project / "lib", {"l": "edited\n"})
    made = await _work(project, tmp_path, include_uncommitted=True)
    write(made.tree, {"a": "A\n", "lib/x": "x\n"})
    found = await diff(made)
    assert [change.path for change in found.changes] == ["a"]
    assert found.notes == ("Files in submodules are not part of the change: lib.",)
    assert isinstance(await _approved(made), Applied)
    assert (project / "lib/l").read_text() == "edited\n"


async def test_two_approvals_at_once_apply_it_once(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": LINES})
    made = await _work(project, tmp_path)
    write(made.tree, {"a": LINES + "more\n"})
    found = await diff(made)
    both = await asyncio.gather(apply(made, found.sha256), apply(made, found.sha256))
    assert sorted(isinstance(one, Applied) and one.already for one in both) == [False, True]


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_tree_that_is_gone_or_a_link_to_elsewhere_is_told(tmp_path: Path, is_replaced: bool) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await _work(project, tmp_path)
    if is_replaced:
        made.top.rename(tmp_path / "moved")
        made.top.symlink_to(tmp_path / "moved")
    else:
        await remove(made, keep=False)
    for call in (diff(made), apply(made, "0" * 64)):
        with pytest.raises(ButlerError, match="is gone"):
            await call


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_files_stay_with_their_owner_where_butler_is_root(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    for path in (project, *project.rglob("*")):
        os.chown(path, 1234, 1234)
    made = await _work(project, tmp_path)
    write(made.tree, {"a": "A\n", "new/n": "n\n"})
    assert isinstance(await _approved(made), Applied)
    assert {(project / name).stat().st_uid for name in ("a", "new", "new/n")} == {1234}
