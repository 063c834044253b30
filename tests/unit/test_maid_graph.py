"""The sub-graph of a delegated task with a maid that the test plays: requests, parks, siblings, failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from butler.approvals import deadlines, ledger
from butler.clock import stamp_in
from butler.maids import attempting, reviewing, store
from butler.maids.conditions import Success
from butler.maids.contract import Finished, Launch, Output, ProviderTrouble, Stop, ToolUse, Watcher
from butler.maids.history import success_of_all
from butler.maids.watching import Watch
from butler.maids.worktree import Applied, Conflict, Workspace, apply
from butler.types import Json
from config.maid_types import Limits, VerificationProfile
from tests.support.headless import says
from tests.support.maid_brain import MaidBrain, asking, maid_brain, works
from tests.support.parts import rule

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")


def tools_of(state: Json) -> list[str]:
    return [entry.value["action_requests"][0]["name"] for entry in state.get("__interrupt__", ())]


async def approve_review(house: MaidBrain, state: Json) -> Json:
    [waiting] = await house.brain.pending()
    assert waiting.tool == "session_complete"
    await house.brain.decide(waiting, "approve")
    return await house.brain.go()


async def test_a_task_parks_on_its_diff_and_goes_on_by_what_the_ledger_says(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("All done")) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["session_complete"]
        assert tools_of(await house.brain.go()) == ["session_complete"]  # woken for nothing
        state = await approve_review(house, state)
        assert state["ending"]["reply"] == "All done"
        assert (house.project / "out.txt").read_text() == "done\n"
        assert len(house.fake.launches) == 1
        told = state["messages"][-2]["content"]
        assert "Status: succeeded." in told and "\nI did it\n</maid-" in told


async def test_a_request_that_is_answered_in_time_does_not_stop_the_maid(tmp_path: Path) -> None:
    async with maid_brain(
        tmp_path, [asking()], says("", DELEGATE), says("ok"), limits=Limits(permission_wait=20.0)
    ) as house:
        turn = asyncio.create_task(house.brain.say("please"))
        while not (pending := await house.brain.pending()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert pending[0].tool == "maid:m:execute" and pending[0].args == {"command": "make it"}
        await house.brain.decide(pending[0], "approve")
        house.brain.round.stir()
        assert tools_of(await turn) == ["session_complete"]
        [attempt] = await house.attempts()
        assert attempt.status == "passed" and attempt.evidence["permissions"][0]["answer"] == "allow"


async def test_a_slow_person_parks_the_task_and_the_answer_is_used_once_by_the_next_run(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [asking()], says("", DELEGATE), says("ok"), on_disk=True) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["maid:m:execute"]
        assert [(one.status, one.spends) for one in await house.attempts()] == [("cancelled", False)]
        [asked] = await house.brain.pending()
        await house.brain.decide(asked, "approve")
        state = await house.brain.go()
        assert tools_of(state) == ["session_complete"]
        assert [one.status for one in await house.attempts()] == ["cancelled", "passed"]
        assert len(house.fake.launches) == 2
        await approve_review(house, state)
        assert [one.status for one in await house.tasks()] == ["succeeded"]


async def test_a_refused_request_is_answered_at_once_and_not_asked_twice(tmp_path: Path) -> None:
    async with maid_brain(
        tmp_path, [asking()], says("", DELEGATE), says("ok"), rules=[rule("no", "maid:*", "refuse", "no commands")]
    ) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == []
        assert [one.status for one in await house.tasks()] == ["failed"]
        actions = [one for one in await house.brain.pending() if one.tool.startswith("maid:")]
        assert actions == []
        assert "was told reject" in (await house.attempts())[0].evidence["claim"]


async def test_a_sibling_call_is_decided_and_runs_beside_a_parked_task(tmp_path: Path) -> None:
    lines = says("", DELEGATE, ("gated", {"text": "hello"}, "call-g")), says("ok")
    async with maid_brain(tmp_path, [works], *lines) as house:
        state = await house.brain.say("please")
        assert sorted(tools_of(state)) == ["gated", "session_complete"]
        gated = next(one for one in await house.brain.pending() if one.tool == "gated")
        await house.brain.decide(gated, "approve")
        state = await house.brain.go()
        assert house.brain.journal.lines == ["hello"]
        assert tools_of(state) == ["session_complete"]
        state = await approve_review(house, state)
        assert state["ending"]["reply"] == "ok"
        assert house.brain.journal.lines == ["hello"]
        assert len(house.fake.launches) == 1


async def test_two_tasks_of_one_round_have_trees_and_outcomes_of_their_own(tmp_path: Path) -> None:
    other = ("delegate", {"intent": "work", "instruction": "the other one"}, "call-e")

    async def by_task(launch: Launch, watcher: Watcher) -> Finished:
        name = "out.txt" if "done" in launch.task.instruction else "other.txt"
        (launch.tree / "out.txt").write_text("done\n")
        (launch.tree / name).write_text("done\n")
        return Finished(0)

    async with maid_brain(tmp_path, [by_task], says("", DELEGATE, other), says("ok")) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["session_complete", "session_complete"]
        first, second = await house.brain.pending()
        await house.brain.decide(first, "approve")
        await house.brain.decide(second, "reject")
        state = await house.brain.go()
        assert state["ending"]["reply"] == "ok"
        assert sorted(one.status for one in await house.tasks()) == ["failed", "succeeded"]


async def test_a_providers_trouble_spends_no_attempt_and_is_bounded(tmp_path: Path) -> None:
    async def unlucky(launch: Launch, watcher: Watcher) -> Finished:
        watcher.event(ProviderTrouble(503, "busy"))
        return Finished(0, stopped=Stop("provider_error", "busy"))

    async with maid_brain(tmp_path, [unlucky], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [task] = await house.tasks()
        assert task.status == "failed" and "provider" in task.reason
        attempts = await house.attempts()
        assert len(attempts) == 4 and not any(one.spends for one in attempts)


async def test_secrets_of_the_house_are_in_no_evidence(tmp_path: Path) -> None:
    async def leaks(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / "out.txt").write_text("done\n")
        return Finished(0, claim="secret-value", stdout_tail="secret-value")

    async with maid_brain(tmp_path, [leaks], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [task], [attempt] = await house.tasks(), await house.attempts()
        [waiting] = await house.brain.pending()
        assert "secret-value" not in str((task, attempt, waiting.args))


async def test_a_fault_of_the_launcher_is_the_end_of_an_attempt_and_not_of_the_turn(tmp_path: Path) -> None:
    async def breaks(launch: Launch, watcher: Watcher) -> Finished:
        raise RuntimeError("broken")

    async with maid_brain(tmp_path, [breaks], says("", DELEGATE), says("I am sorry")) as house:
        state = await house.brain.say("please")
        assert state["ending"]["reply"] == "I am sorry"
        assert [one.status for one in await house.tasks()] == ["failed"]
        assert "broken" in str((await house.attempts())[0].evidence["failure"])


async def test_finished_sub_graphs_leave_no_checkpoints(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok"), on_disk=True) as house:
        state = await house.brain.say("please")
        saver = house.brain.graph.checkpointer
        await saver.aprune(["thread"])  # type: ignore[union-attr]
        assert tools_of(await house.brain.go()) == ["session_complete"]  # parked ones are never pruned
        await approve_review(house, state)
        await saver.aprune(["thread"])  # type: ignore[union-attr]
        assert await saver.threads() == {"thread": 1}  # type: ignore[union-attr]


async def test_a_maid_that_may_not_start_unasked_waits_and_ends_with_a_no(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("a pity"), launch_verdict="approve") as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["delegate"]
        assert house.fake.launches == []
        [waiting] = await house.brain.pending()
        await house.brain.decide(waiting, "reject")
        state = await house.brain.go()
        assert state["ending"]["reply"] == "a pity" and house.fake.launches == []


async def test_what_can_not_be_done_at_all_asks_nobody(tmp_path: Path) -> None:
    wrong = ("delegate", {"intent": "work", "instruction": "do it", "project_root": "/nowhere"}, "call-w")
    named = ("delegate", {"intent": "work", "instruction": "do it", "maid_id": "m"}, "call-n")
    async with maid_brain(tmp_path, [works], says("", wrong, named), says("ok"), launch_verdict="approve") as house:
        state = await house.brain.say("please")
        assert state["ending"]["reply"] == "ok"
        told = [message["content"] for message in state["messages"] if message["role"] == "tool"]
        assert "project_roots" in told[0] and "not yours to choose" in told[1]


async def test_time_alone_can_end_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempting, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(attempting, "PATIENCE_SECONDS", 0.1)
    gone = asyncio.Event()

    async def hangs(launch: Launch, watcher: Watcher) -> Finished:
        watcher.event(ToolUse("c", "execute", "npm start", "in_progress"))
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return Finished(0)

    async with maid_brain(tmp_path, [hangs], says("", DELEGATE), says("ok"), limits=Limits(silence=0.01)) as house:
        await house.brain.say("please")
        assert gone.is_set()
        assert [one.failure_class for one in await house.attempts()] == ["hung_foreground"] * 2


async def test_without_any_check_it_is_unverified_and_never_a_success(tmp_path: Path) -> None:
    unchecked = VerificationProfile()
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok"), verification_profile=unchecked) as house:
        state = await approve_review(house, await house.brain.say("please"))
        assert [one.status for one in await house.tasks()] == ["unverified"]
        assert (house.project / "out.txt").exists()
        assert "nothing was checked" in state["messages"][-2]["content"]


async def test_what_is_right_already_needs_no_diff_and_no_question(tmp_path: Path) -> None:
    async def idle(launch: Launch, watcher: Watcher) -> Finished:
        return Finished(0)

    async with maid_brain(tmp_path, [idle], says("", DELEGATE), says("ok")) as house:
        (house.project / "out.txt").write_text("done\n")
        state = await house.brain.say("please")
        assert tools_of(state) == []
        assert [one.status for one in await house.tasks()] == ["succeeded"]


async def test_nobody_answers_about_the_diff_in_time(tmp_path: Path) -> None:
    soon = replace(rule("soon", "session_complete", "approve"), expires_in=0.001)
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok"), rules=[soon]) as house:
        await house.brain.say("please")
        await house.database.write(lambda connection: deadlines.expire_due(connection, stamp_in(1)))
        state = await house.brain.go()
        assert state["ending"]["reply"] == "ok"
        [task] = await house.tasks()
        assert task.status == "failed" and "nobody answered" in task.reason
        assert not (house.project / "out.txt").exists()


async def test_past_success_counts_for_routes(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok")) as house:
        await approve_review(house, await house.brain.say("please"))
        assert await house.database.read(success_of_all) == {"m": Success(1, 1)}


async def test_a_request_that_nobody_needs_any_more_leaves_the_inbox(tmp_path: Path) -> None:
    acts = [asking(), works]
    async with maid_brain(tmp_path, acts, says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [asked] = await house.brain.pending()
        await house.brain.decide(asked, "approve")  # but the next run does without
        await approve_review(house, await house.brain.go())
        stored = await house.database.read(lambda connection: ledger.get(connection, asked.action_id))
        assert stored is not None and (stored.status, stored.execution) == ("cancelled", "none")
        assert await house.brain.pending() == []


async def test_a_house_without_maids_does_not_delegate(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("I see"), enabled=False) as house:
        state = await house.brain.say("please")
        assert state["ending"]["reply"] == "I see"
        assert "no maid" in state["messages"][-2]["content"] and await house.tasks() == []


async def test_work_that_is_being_applied_is_applied_to_its_end_though_the_turn_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def slowly(workspace: Workspace, sha256: str) -> Applied | Conflict:
        begun.set()
        await let_go.wait()
        return await apply(workspace, sha256)

    monkeypatch.setattr(reviewing, "apply", slowly)
    async with maid_brain(tmp_path, [works], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [waiting] = await house.brain.pending()
        await house.brain.decide(waiting, "approve")
        turn = asyncio.create_task(house.brain.go())
        await begun.wait()
        turn.cancel()
        await asyncio.sleep(0)
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (house.project / "out.txt").read_text() == "done\n"
        assert [one.status for one in await house.tasks()] == ["succeeded"]
        stored = await house.database.read(lambda connection: ledger.get(connection, waiting.action_id))
        assert stored is not None and stored.execution == "done"


async def test_an_attempt_ends_between_two_events_where_the_proxy_says_so(tmp_path: Path) -> None:
    async def silent(launch: Launch, watcher: Watcher) -> Finished:
        assert isinstance(watcher, Watch)
        asyncio.get_running_loop().call_soon(watcher.over_limit, "2,000,000 tokens are used up")
        return Finished(None, stopped=await watcher.interrupted())

    async with maid_brain(tmp_path, [silent], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        [attempt] = await house.attempts()
        assert attempt.failure_class == "policy_violation"
        assert "2,000,000" in attempt.evidence["failure"]["detail"]


async def test_a_cancelled_attempt_leaves_what_was_heard_and_changed_in_its_evidence(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def works_on(launch: Launch, watcher: Watcher) -> Finished:
        (launch.tree / "half.txt").write_text("half\n")
        for stream in ("stdout", "stderr"):
            watcher.event(Output(stream, f"on {stream} secret-value\n"))
        begun.set()
        await asyncio.Event().wait()
        return Finished(0)

    async with maid_brain(tmp_path, [works_on], says("", DELEGATE), says("ok")) as house:
        turn = asyncio.create_task(house.brain.say("please"))
        await begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        [attempt] = await house.attempts()
        told = attempt.evidence
        assert (told["stdout_tail"], told["stderr_tail"]) == ("on stdout ***\n", "on stderr ***\n")
        assert told["changed_files"] == ["half.txt"] and "+half" in told["diff"]
        assert told["duration"] > 0


async def test_no_more_maids_run_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    running: list[str] = []
    most = []

    async def by_task(launch: Launch, watcher: Watcher) -> Finished:
        running.append(launch.attempt_id)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.remove(launch.attempt_id)
        return await works(launch, watcher)

    calls = [("delegate", {"intent": "work", "instruction": f"done {number}"}, f"c{number}") for number in range(3)]
    async with maid_brain(tmp_path, [by_task], says("", *calls), says("ok"), at_once=1) as house:
        await house.brain.say("please")
        assert most == [1, 1, 1]
        assert "As many maids as may (1) are running already." in [
            data.get("detail") for data in house.brain.told("maid")
        ]


@pytest.mark.parametrize("include", [True, False])
async def test_a_maid_sees_what_is_not_committed_only_where_its_row_says_so(tmp_path: Path, include: bool) -> None:
    seen = []

    async def looks(launch: Launch, watcher: Watcher) -> Finished:
        seen.append((launch.tree / "readme.txt").read_text())
        return await works(launch, watcher)

    async with maid_brain(tmp_path, [looks], says("", DELEGATE), says("ok"), include_uncommitted=include) as house:
        (house.project / "readme.txt").write_text("hello again\n")
        await approve_review(house, await house.brain.say("please"))
        assert seen == ["hello again\n" if include else "hello\n"]
        assert (house.project / "readme.txt").read_text() == "hello again\n"
        assert (house.project / "out.txt").read_text() == "done\n"


async def test_a_call_beyond_what_a_person_may_have_waiting_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_UNFINISHED", 1)
    calls = [("delegate", {"intent": "work", "instruction": f"done {number}"}, f"c{number}") for number in range(2)]
    async with maid_brain(tmp_path, [works], says("", *calls), says("ok")) as house:
        state = await house.brain.say("please")
        assert tools_of(state) == ["session_complete"] and len(await house.tasks()) == 1
        state = await approve_review(house, state)
        told = [str(message["content"]) for message in state["messages"]]
        assert sum("Not delegated: 1 of your tasks are not over yet" in text for text in told) == 1
        assert state["ending"]["reply"] == "ok" and len(house.fake.launches) == 1
