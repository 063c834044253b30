"""How an attempt is settled where the tree, the diff or the project itself is not as one would think (D6, D7, D8)."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.launching.sandbox import confined
from butler.maids.verify.run import verify
from butler.maids.worktree.removing import remove_tree
from config.maid_types import CommandCheck, ExactOutput, FileCheck, MaidRegistryFile, RetryPolicy, VerificationProfile
from tests.support.headless import says
from tests.support.maid_brain import maid_brain, works
from tests.support.projects import git
from tests.unit.test_maid_graph import DELEGATE, approve_review, tools_of
from tests.unit.test_maid_sandbox import bubblewrap as bubblewrap
from tests.unit.test_maid_sandbox import needs_bubblewrap


async def too_much(launch: Launch, watcher: Watcher) -> Finished:
    await works(launch, watcher)
    with (launch.tree / "big").open("wb") as file:
        file.truncate(1 << 40)
    return Finished(0)


async def removes(launch: Launch, watcher: Watcher) -> Finished:
    shutil.rmtree(launch.tree)
    return Finished(0)


async def test_work_that_can_not_be_taken_is_no_success_and_the_maid_hears_why(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [too_much], says("", DELEGATE), says("ok")) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == []
        [task], attempts = await house.tasks(), await house.attempts()
        assert task.status == "failed" and task.diff is None
        assert [one.failure_class for one in attempts] == ["wrong_output", "wrong_output"]
        assert "big" not in attempts[0].evidence["changed_files"]
        prompt = house.fake.launches[1].prompt
        assert "t be taken" in prompt and "could not be listed" in prompt
        assert attempts[0].evidence["diff_fault"] == attempts[0].evidence["failure"]["detail"]


async def test_the_diff_of_an_attempt_before_is_not_asked_about_in_place_of_one_that_can_not_be_taken(
    tmp_path: Path,
) -> None:
    async def half(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / "out.txt").write_text("half\n")
        return Finished(0)

    policy = RetryPolicy(max_attempts=2)
    async with maid_brain(tmp_path, [half, too_much], says("", DELEGATE), says("ok"), retry=policy) as house:
        assert tools_of(await house.brain.say("please")) == []
        [task] = await house.tasks()
        assert task.status == "failed" and task.diff is None


async def test_after_a_maid_removed_its_tree_the_next_attempt_gets_a_fresh_one(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [removes, works], says("", DELEGATE), says("ok")) as house:
        state = await house.brain.say("please")
        assert [one.failure_class for one in await house.attempts()] == ["wrong_directory", None]
        assert "removed the folder" in house.fake.launches[1].prompt
        await approve_review(house, state)
        assert (house.project / "out.txt").exists()
        assert git(house.project, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_damaged_pointer_to_the_repository_is_written_anew(tmp_path: Path, is_replaced: bool) -> None:
    told: list[str] = []

    async def damages(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / "out.txt").write_text("half\n")
        (launch.tree / ".git").unlink()
        if is_replaced:
            git(launch.tree, "init", "-q")
        return Finished(0)

    async def goes_on(launch: Launch, watcher: Watcher) -> Finished:
        told.append((launch.tree / "out.txt").read_text())
        told.append(git(launch.tree, "log", "--format=%s"))
        return await works(launch, watcher)

    async with maid_brain(tmp_path, [damages, goes_on], says("", DELEGATE), says("ok")) as house:
        await approve_review(house, await house.brain.say("please"))
        assert told == ["half\n", "first\n"]
        assert (house.project / "out.txt").read_text() == "done\n"


async def test_a_person_who_goes_on_working_costs_no_attempt_and_the_approval_tells_of_it(tmp_path: Path) -> None:
    async def slow(launch: Launch, watcher: Watcher) -> Finished:
        (Path(launch.task.project_root) / "readme.txt").write_text("edited by the person\n")
        git(launch.task.project_root, "update-ref", "refs/remotes/origin/main", "HEAD")
        return await works(launch, watcher)

    async with maid_brain(tmp_path, [slow], says("", DELEGATE), says("ok")) as house:
        state = await house.brain.say("please")
        [waiting] = await house.brain.pending()
        assert waiting.args["changed_outside"] == ["readme.txt"]
        await approve_review(house, state)
        assert (house.project / "readme.txt").read_text() == "edited by the person\n"


async def test_a_maid_that_changes_the_settings_of_the_repository_has_left_its_folder(tmp_path: Path) -> None:
    async def tampers(launch: Launch, watcher: Watcher) -> Finished:
        git(launch.tree, "config", "core.editor", "evil")
        return await works(launch, watcher)

    async with maid_brain(tmp_path, [tampers, works], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        assert [one.failure_class for one in await house.attempts()] == ["wrong_directory", None]


async def test_what_programs_of_the_checks_change_in_the_project_is_told(tmp_path: Path) -> None:
    script = "import sys; open(sys.argv[1], 'a').write('HACKED'); open('more.txt', 'w').write('x')"
    project = tmp_path / "project"
    command = (sys.executable, "-c", script, str(project / "readme.txt"))
    profile = VerificationProfile(
        file_checks=(FileCheck("out.txt", contains="done"),), test_commands=(CommandCheck(command),)
    )
    async with maid_brain(
        tmp_path, [works], says("", DELEGATE), says("ok"), allowed=(command,), verification_profile=profile
    ) as house:
        await house.brain.say("please")
        [waiting] = await house.brain.pending()
        assert waiting.args["changed_outside"] == ["readme.txt"]
        assert waiting.args["changed_by_checks"] == ["more.txt"]


@needs_bubblewrap
async def test_what_a_sandboxed_maid_wrote_runs_in_the_sandbox_also_as_a_check(tmp_path: Path) -> None:
    script = (
        "import sys, tempfile; open('more.txt', 'w').write('x'); tempfile.TemporaryFile()\n"
        "try: open(sys.argv[1], 'a').write('HACKED')\nexcept OSError: sys.exit(0)\nsys.exit(1)"
    )
    command = (sys.executable, "-c", script, str(tmp_path / "project/readme.txt"))
    profile = VerificationProfile(test_commands=(CommandCheck(command),))
    async with maid_brain(
        tmp_path, [works], says("", DELEGATE), says("ok"), allowed=(command,), verification_profile=profile,
        sandbox="bubblewrap",
    ) as house:  # fmt: skip
        assert tools_of(await house.brain.say("please")) == ["session_complete"]
        [waiting] = await house.brain.pending()
        assert waiting.args["changed_by_checks"] == ["more.txt"] and "changed_outside" not in waiting.args
        assert (house.project / "readme.txt").read_text() == "hello\n"


async def test_without_its_program_the_sandbox_of_checks_is_an_error_and_nothing_runs(tmp_path: Path) -> None:
    command = (sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')")
    profile = VerificationProfile(test_commands=(CommandCheck(command),))
    wrap = partial(confined, place=tmp_path, writable=(), network=True, search=str(tmp_path))
    registry = MaidRegistryFile(allowed_commands=(command,))
    found = await verify(profile, tmp_path, registry, dict(os.environ), "mark", wrap=wrap)
    assert found.outcome == "error" and "install bubblewrap" in found.checks[0].actual
    assert not (tmp_path / "ran").exists()


async def test_a_file_that_other_checks_spoil_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("right")
    command = (sys.executable, "-c", "open('out.txt', 'w').write('EVIL')")
    profile = VerificationProfile(
        file_checks=(FileCheck("out.txt", contains="right"),), test_commands=(CommandCheck(command),)
    )
    found = await verify(profile, tmp_path, MaidRegistryFile(allowed_commands=(command,)), dict(os.environ), "mark")
    assert found.outcome == "failed" and [one.outcome for one in found.checks] == ["failed", "passed"]
    assert "EVIL" in found.checks[0].actual and "no more after the other checks" in found.checks[0].actual

    (tmp_path / "out.txt").write_text("right")
    exact = ExactOutput("right", path="out.txt")
    shell = ExactOutput("", command=command)
    profile = VerificationProfile(exact_output=(exact, shell))
    found = await verify(profile, tmp_path, MaidRegistryFile(allowed_commands=(command,)), dict(os.environ), "mark")
    assert [one.outcome for one in found.checks] == ["failed", "passed"]


def deep(root: Path, count: int, name: str) -> None:
    place = os.open(root, os.O_RDONLY)
    for _ in range(count):
        os.mkdir(name, dir_fd=place)
        deeper = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.mkdir("closed", 0, dir_fd=place)
    os.close(place)


def test_a_chain_of_folders_deeper_than_the_stack_is_removed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    deep(tmp_path / "top", 1200, "d")
    (tmp_path / "keep").write_text("k")
    (tmp_path / "top/link").symlink_to(tmp_path)
    remove_tree(tmp_path / "top")
    assert [path.name for path in tmp_path.iterdir()] == ["keep"]


async def test_folders_too_deep_for_any_path_are_the_maids_fault_and_leave_nothing_behind(tmp_path: Path) -> None:
    async def digs(launch: Launch, watcher: Watcher) -> Finished:
        await works(launch, watcher)
        deep(launch.tree, 30, "d" * 200)
        return Finished(0)

    async with maid_brain(tmp_path, [digs], says("", DELEGATE), says("ok"), retry=RetryPolicy(max_attempts=1)) as house:
        state = await house.brain.say("please")
        assert state["ending"]["reply"] == "ok"
        assert [one.failure_class for one in await house.attempts()] == ["wrong_output"]
        assert list((tmp_path / "data/maids").iterdir()) == []
