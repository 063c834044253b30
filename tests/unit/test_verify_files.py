"""File checks: inside the tree with links resolved, bounded, error told apart from failure (D8)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.maids.contract import CheckResult, Verification
from butler.maids.verify.files import READ_LIMIT, LeadsOut, place_in
from butler.maids.verify.findings import LIMIT, CheckError, bounded, compared
from butler.maids.verify.run import verify
from config.maid_types import ExactOutput, FileCheck, MaidRegistryFile, VerificationProfile


async def checked(tree: Path, *checks: FileCheck) -> Verification:
    return await verify(VerificationProfile(file_checks=checks), tree, MaidRegistryFile(), {}, "mark")


async def only(tree: Path, check: FileCheck) -> CheckResult:
    (result,) = (await checked(tree, check)).checks
    return result


async def exactly(tree: Path, path: str, expect: str) -> CheckResult:
    profile = VerificationProfile(exact_output=(ExactOutput(expect, path=path),))
    (result,) = (await verify(profile, tree, MaidRegistryFile(), {}, "mark")).checks
    return result


async def test_no_checks_at_all_is_unverified_and_never_success(tmp_path: Path) -> None:
    assert await checked(tmp_path) == Verification("unverified")


async def test_a_file_with_the_text_passes_and_one_without_shows_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("hello world\n")
    assert (await only(tmp_path, FileCheck("out.txt", contains="world"))).outcome == "passed"
    result = await only(tmp_path, FileCheck("out.txt", contains="formatted"))
    assert (result.kind, result.name, result.outcome) == ("file", "out.txt", "failed")
    assert "formatted" in result.expected and "hello world" in result.actual


async def test_a_missing_file_fails_and_one_that_must_not_be_there_too(tmp_path: Path) -> None:
    (tmp_path / "left.tmp").touch()
    assert (await only(tmp_path, FileCheck("out.txt"))).actual == "There is no such file."
    assert (await only(tmp_path, FileCheck("out.txt", exists=False))).outcome == "passed"
    assert (await only(tmp_path, FileCheck("left.tmp", exists=False))).outcome == "failed"


async def test_a_dangling_link_is_no_file_and_yet_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert (await only(tmp_path, FileCheck("link"))).outcome == "failed"
    assert (await only(tmp_path, FileCheck("link", exists=False))).outcome == "failed"


OUT = {
    "../secret": "error", "/etc/passwd": "error", "sub/../../secret": "error", "": "error", "a\0b": "error",
    "link": "failed", "folder/secret": "failed", "folder/../secret": "failed",
}  # fmt: skip


@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize("exists", [True, False])
async def test_a_path_out_of_the_tree_is_not_looked_at_and_an_error_unless_a_link_of_the_maid_leads_there(
    tmp_path: Path, path: str, exists: bool
) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("key")
    (tree / "link").symlink_to(tmp_path / "secret")
    (tree / "folder").symlink_to(tmp_path)
    result = await only(tree, FileCheck(path, exists=exists, contains="key"))
    assert result.outcome == OUT[path] and "tree" in result.actual
    assert (await exactly(tree, path, "key")).outcome == OUT[path]


async def test_a_link_that_stays_in_the_tree_is_followed_also_where_the_tree_is_reached_by_a_link(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "real").write_text("text")
    (tree / "link").symlink_to("real")
    (tmp_path / "way").symlink_to(tree)
    assert (await only(tmp_path / "way", FileCheck("link", contains="text"))).outcome == "passed"


async def test_folders_pipes_and_endless_devices_never_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert (await only(tmp_path, FileCheck("pipe", contains="x"))).actual == "It is no regular file."
    assert (await only(tmp_path, FileCheck("folder"))).actual == "It is a folder."


async def test_only_the_first_part_of_a_huge_file_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(READ_LIMIT * 1000)
        file.seek(READ_LIMIT + 1)
        file.write(b"needle")
    result = await only(tmp_path, FileCheck("huge", contains="needle"))
    assert result.outcome == "failed" and f"first {READ_LIMIT} bytes" in result.actual
    assert len(result.actual) <= LIMIT
    assert (await exactly(tmp_path, "huge", "\0" * READ_LIMIT)).outcome == "failed"


async def test_a_failure_outweighs_an_error_and_an_error_outweighs_success(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    good, bad, odd = FileCheck("a"), FileCheck("b"), FileCheck("../c")
    assert (await checked(tmp_path, good)).outcome == "passed"
    assert (await checked(tmp_path, good, odd)).outcome == "error"
    assert (await checked(tmp_path, odd, bad, good)).outcome == "failed"


async def test_exact_output_is_the_whole_file_and_names_the_first_difference(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"one\ntwo\n")
    assert (await exactly(tmp_path, "out", "one\ntwo\n")).outcome == "passed"
    result = await exactly(tmp_path, "out", "one\ntwo")
    assert result.outcome == "failed" and "line 2, column 4" in result.actual and "the end" in result.actual
    result = await exactly(tmp_path, "out", "one\ntoo\n")
    assert "line 2, column 2: expected 'oo\\n', found 'wo\\n'" in result.actual
    (tmp_path / "out").write_bytes(b"one\r\n")
    assert (await exactly(tmp_path, "out", "one\n")).outcome == "failed"
    (tmp_path / "out").write_bytes(b"\xff")
    assert (await exactly(tmp_path, "out", "\ufffd")).outcome == "failed"


@given(st.text(), st.text())
def test_texts_are_equal_only_to_themselves_and_the_difference_is_always_said(one: str, other: str) -> None:
    finding = compared(one, other.encode("utf-8", "surrogatepass"))
    assert (finding.outcome == "passed") == (one == other)
    assert one == other or "First difference" in finding.actual or "UTF-8" in finding.actual


@given(st.text(max_size=3000), st.integers(100, 2000))
def test_bounded_texts_keep_their_bound(text: str, limit: int) -> None:
    assert len(bounded(text, limit)) <= max(limit, 0) and bounded(text, 3000) == text


@given(st.lists(st.sampled_from(["a", "..", ".", "up", "in", "deep", ""]), max_size=6))
def test_whatever_the_parts_a_place_is_in_the_tree_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp() / "places"
    tree = base / "tree"
    if not tree.exists():
        (tree / "deep").mkdir(parents=True)
        (tree / "up").symlink_to("..")
        (tree / "in").symlink_to("deep")
    try:
        place = place_in(tree, "/".join(parts))
    except (CheckError, LeadsOut):
        return
    assert place.is_relative_to(tree.resolve())
