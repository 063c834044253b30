"""Bytes under a wrong name in git's store: what a person sees and gets is never made of them (D6)."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import pytest

from butler.maids.worktree import Applied, Workspace, apply, diff, prepare
from butler.maids.worktree.sealing import Tampered, sealed
from tests.support.projects import git, make_project, write

LINES = "".join(f"{number}\n" for number in range(9))


def _name(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def _forge(objects: Path, name: str, kind: str, data: bytes) -> None:
    place = objects / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True, parents=True)
    place.unlink(missing_ok=True)
    place.write_bytes(zlib.compress(f"{kind} {len(data)}\0".encode() + data))


async def _work(tmp_path: Path, kind: str = "git", text: str = "a\n") -> Workspace:
    if kind == "git":
        make_project(tmp_path / "p", {"a": text})
    else:
        write(tmp_path / "p", {"a": text})
    return sealed(await prepare(tmp_path / "p", tmp_path / "data/maids/run", include_uncommitted=True, number=1))


def _objects(made: Workspace, where: str) -> Path:
    return made.git_dir / "objects" if where == "beside" else made.project_root / ".git/objects"


@pytest.mark.parametrize(("kind", "where"), [("git", "beside"), ("git", "project"), ("copy", "beside")])
async def test_a_forged_side_before_hides_no_line_from_the_diff(tmp_path: Path, kind: str, where: str) -> None:
    made = await _work(tmp_path, kind)
    write(made.tree, {"a": "EVIL\nharmless\n"})
    _forge(_objects(made, where), _name("blob", b"a\n"), "blob", b"EVIL\n")
    with pytest.raises(Tampered, match="other bytes"):
        await diff(made)


async def test_bytes_that_no_check_has_seen_are_not_applied(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "right\n"})
    _forge(made.git_dir / "objects", _name("blob", b"right\n"), "blob", b"EVIL\n")
    with pytest.raises(Tampered, match="other bytes"):
        await diff(made)


async def test_a_folder_that_no_check_has_seen_is_not_applied(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "right\n"})
    right, evil = _name("blob", b"right\n"), _name("blob", b"EVIL\n")
    _forge(made.git_dir / "objects", evil, "blob", b"EVIL\n")
    one, other = (b"100644 a\0" + bytes.fromhex(blob) for blob in (right, evil))
    _forge(made.git_dir / "objects", _name("tree", one), "tree", other)
    with pytest.raises(Tampered, match="other bytes"):
        await diff(made)


@pytest.mark.parametrize("forged", ["ours", "merged"])
async def test_a_merge_reads_and_writes_what_it_was_given(tmp_path: Path, forged: str) -> None:
    made = await _work(tmp_path, text=LINES)
    write(made.tree, {"a": LINES.replace("8", "maid")})
    found = await diff(made)
    ours = LINES.replace("0", "person")
    write(made.project_root, {"a": ours})
    guessed = ours if forged == "ours" else ours.replace("8", "maid")
    _forge(made.git_dir / "objects", _name("blob", guessed.encode()), "blob", b"EVIL\n" + guessed.encode())
    with pytest.raises(Tampered, match="other bytes"):
        await apply(made, found.sha256)
    assert (made.project_root / "a").read_text() == ours


async def test_bytes_forged_after_the_approval_are_seen_when_it_is_applied(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"a": "right\n"})
    found = await diff(made)
    _forge(made.git_dir / "objects", _name("blob", b"right\n"), "blob", b"EVIL\n")
    with pytest.raises(Tampered, match="other bytes"):
        await apply(made, found.sha256)
    assert (made.project_root / "a").read_text() == "a\n"


async def test_true_bytes_in_folders_links_and_odd_names_are_believed(tmp_path: Path) -> None:
    made = await _work(tmp_path)
    write(made.tree, {"b/c/d": "d\n", "e\nf": "", "g": "\0" * 3_000_000})
    (made.tree / "h").symlink_to("a")
    (made.tree / "a").unlink()
    git(made.tree, "add", "-A")
    git(made.tree, "commit", "-qm", "work")
    found = await diff(Workspace.from_json(json.loads(json.dumps(made.to_json()))))
    assert len(found.changes) == 5
    assert isinstance(await apply(made, found.sha256), Applied)
    assert (made.project_root / "e\nf").read_text() == "" and not (made.project_root / "a").exists()
