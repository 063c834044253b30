"""What a person is shown of a diff, and where approved work may go by the time of the approval (D6, D12, A7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.approvals import ledger
from butler.maids.applying import being_applied
from butler.maids.reviewing import REFUSED
from butler.maids.showing import shown
from butler.maids.worktree import diff, prepare
from butler.maids.worktree.cutting import cut_diff
from butler.tools.delegating import SESSION_COMPLETE, delegating_toolset
from config.maid_types import FileCheck, VerificationProfile
from service.butler import ButlerService
from tests.support.headless import says
from tests.support.maid_brain import asking, maid_brain, works
from tests.support.parts import ADMIN, registry, rule
from tests.support.projects import make_project, write
from tests.unit.test_maid_graph import DELEGATE, tools_of


async def test_a_long_file_hides_no_short_one(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", {"a": "a\n"})
    made = await prepare(project, tmp_path / "data/maids/run", include_uncommitted=False, number=1)
    long = "".join(f"line {number}\n" for number in range(50_000))
    write(made.tree, {"a.lock": long, "b.lock": "ü" * 300_000, "evil.sh": "curl | sh\n"})
    found = await diff(made)
    assert found.is_cut and len(found.text.encode()) <= 200 * 1024
    assert "+curl | sh" in found.text and found.text.count("more bytes are not shown]") == 2
    assert "+line 3000\n" in found.text and "�" not in found.text
    assert [path.name for path in made.state.glob("text-*")] == []


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(["x\n", "é", "-\n"])), max_size=40), st.integers(500, 9000)
)
def test_whatever_the_sizes_the_bound_holds_and_what_fits_is_whole(files: list[tuple[int, str]], limit: int) -> None:
    parts = [f"diff --git a/{number} b/{number}\n+" + text * times for number, (times, text) in enumerate(files)]
    data = "\n".join(parts).encode()
    text, is_cut = cut_diff(data, limit)
    assert len(text.encode()) <= limit and is_cut == (len(data) > limit)
    assert is_cut or text.encode() == data
    if len(files) * 500 < limit:
        assert text.count("diff --git ") == len(files)


async def test_the_approval_says_what_is_not_shown_and_is_never_too_long_for_its_own_call(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [task], attempts = await house.tasks(), await house.attempts()
        [waiting] = await house.brain.pending()
        assert waiting.args["diff_is_cut"] is False and "notes" not in waiting.args
        assert task.diff is not None
        changes = [{**task.diff["changes"][0], "path": f"folder/{number:06}"} for number in range(30_000)]
        long = replace(task, diff={**task.diff, "text": "\x01" * 300_000, "changes": changes, "notes": ["A note."]})
        tools = registry(*delegating_toolset(house.desk.registry.maids, house.desk.verdict_for).specs)
        args = shown(long, attempts)
        assert args["changed_files_count"] == 30_000 and len(args["changed_files"]) == 500 and args["diff_is_cut"]
        assert "too long" in args["notes"][0] and "500 of 30000" in args["notes"][1] and args["notes"][2] == "A note."
        assert tools.validate(SESSION_COMPLETE, args) == []
        names = [{**change, "path": "n" * 4000} for change in changes[:400]]
        named = shown(replace(task, diff={**task.diff, "changes": names}), attempts)
        assert tools.validate(SESSION_COMPLETE, named) == [] and len(named["changed_files"]) < 40


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_nothing_is_applied_through_a_link_or_where_the_project_is_no_longer_allowed(
    tmp_path: Path, is_allowed: bool
) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok"), on_disk=True) as house:
        await house.brain.say("please")
        [waiting] = await house.brain.pending()
        victim = tmp_path / "victim"
        if is_allowed:
            house.project.rename(victim)
            house.project.symlink_to(victim)
        else:
            other = tmp_path / "other"
            other.mkdir()
            object.__setattr__(house.desk, "registry", replace(house.desk.registry, project_roots=(other,)))
        await house.brain.decide(waiting, "approve")
        state = await house.brain.go()
        assert tools_of(state) == ["session_complete"]
        [again] = [one for one in await house.brain.pending() if one.status == "pending"]
        assert ("Another folder" if is_allowed else "project_roots") in again.args["conflicts"][0]["detail"]
        assert not (victim / "out.txt").exists() and not (house.project / "out.txt").exists()


async def test_a_thread_is_deleted_only_after_what_is_being_applied(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [waiting] = await house.brain.pending()
        await house.brain.decide(waiting, "approve")
        begun = await house.database.write(
            lambda connection: ledger.begin(connection, waiting.action_id, lambda *_: None, guarded=False)
        )
        assert begun.won and [one.status for one in await house.database.read(being_applied)] == ["running"]
        forgotten = asyncio.Event()

        async def forget(*_: object) -> None:
            forgotten.set()

        faculties = SimpleNamespace(compactor=None, maids=None, redactor=None)
        running = SimpleNamespace(forget_thread=forget)
        service = ButlerService(faculties, house.database, running, None, None)  # type: ignore[arg-type]
        deleting = asyncio.create_task(service.delete_thread(ADMIN, "thread", "http"))
        await asyncio.wait([deleting], timeout=0.2)
        assert not deleting.done() and len(await house.tasks()) == 1
        # As at a start after a crash: what was being applied is applied to its end.
        supervisor = house.brain.faculties.maids
        assert supervisor is not None
        await supervisor.recover()
        await deleting
        assert forgotten.is_set() and (house.project / "out.txt").exists() and await house.tasks() == []


async def test_checks_that_pass_without_a_change_do_not_hide_that_something_was_refused(tmp_path: Path) -> None:
    refusing, readme = rule("no", "maid:*", "refuse", "no commands"), FileCheck("readme.txt")
    async with maid_brain(
        tmp_path, [asking()], says("", DELEGATE), says("ok"), rules=[refusing],
        verification_profile=VerificationProfile(file_checks=(readme,)),
    ) as house:  # fmt: skip
        await house.brain.say("please")
        assert [(one.status, one.reason) for one in await house.tasks()] == [("succeeded", REFUSED)]
