"""What the graph shows of a delegated task, and what is bound before, between and for its attempts (D7, D10)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from butler.approvals.grants import GrantWish
from butler.maids import attempting
from butler.maids.contract import Finished, Launch, Output, ProviderTrouble, Stop, ToolUse, Watcher
from config.maid_types import Limits
from graph.build import build_graph
from tests.support.headless import says
from tests.support.maid_brain import MaidBrain, asking, maid_brain, wants, works

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")
STEPS = ("claim", "route", "prepare", "permission", "attempt", "verify", "review", "apply", "report")


def test_the_drawn_graph_shows_every_step_of_a_task_and_the_way_back_to_another_attempt() -> None:
    drawn = build_graph().compile().get_graph(xray=True)
    assert {f"delegate:{step}" for step in STEPS} <= set(drawn.nodes)
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    way = [f"delegate:{step}" for step in ("route", "prepare", "attempt", "verify", "review", "apply", "report")]
    assert set(pairwise(way)) <= edges
    assert ("delegate:verify", "delegate:attempt") in edges and ("delegate:apply", "delegate:review") in edges
    assert "delegate" in drawn.draw_mermaid()


async def test_an_attempt_is_in_the_database_before_its_maid_is_launched(tmp_path: Path) -> None:
    found: list[list[tuple[int, str, bool]]] = []
    houses: list[MaidBrain] = []

    async def looks(launch: Launch, watcher: Watcher) -> Finished:
        known = await houses[0].attempts()
        found.append([(one.number, one.status, one.spends) for one in known])
        assert known[-1].attempt_id == launch.attempt_id
        return Finished(0) if len(known) == 1 else await works(launch, watcher)

    async with maid_brain(tmp_path, [looks], says("", DELEGATE), says("ok")) as house:
        houses.append(house)
        await house.brain.say("please")
    assert found == [[(1, "running", True)], [(1, "failed", True), (2, "running", True)]]


@pytest.mark.parametrize(("wanted", "pauses"), [(None, ["0.01", "0.02", "0.03"]), (3600.0, ["0.03"] * 3)])
async def test_the_pause_after_a_providers_trouble_doubles_up_to_a_bound_that_no_provider_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: float | None, pauses: list[str]
) -> None:
    async def unlucky(launch: Launch, watcher: Watcher) -> Finished:
        watcher.event(ProviderTrouble(429, "busy", wanted))
        return Finished(0, stopped=Stop("provider_error", "busy"))

    monkeypatch.setattr(attempting, "LONGEST_BACKOFF", 0.03)
    async with maid_brain(tmp_path, [unlucky], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        told = [str(data["detail"]) for data in house.brain.told("maid") if data["phase"] == "waiting"]
    assert [line.split(" in ")[1] for line in told] == [f"{pause} s." for pause in pauses]


async def test_a_grant_answers_a_maids_later_requests_and_another_command_is_asked_about(tmp_path: Path) -> None:
    async def asks_thrice(launch: Launch, watcher: Watcher) -> Finished:
        answers = [await watcher.permission(wants(launch, command)) for command in ("make it", "make it", "make that")]
        assert "cancel" in answers
        return Finished(None, awaits_permission=True)

    async with maid_brain(
        tmp_path, [asking(), asks_thrice], says("", DELEGATE), says("ok"), limits=Limits(permission_wait=0.05)
    ) as house:
        await house.brain.say("please")
        [waiting] = await house.brain.pending()
        assert waiting.tool == "maid:m:execute"
        await house.brain.decide(waiting, "approve", grant=GrantWish("thread", {"command": "make it"}))
        await house.brain.go()
        [other] = await house.brain.pending()
        assert other.args == {"command": "make that"}
        assert [one["answer"] for one in (await house.attempts())[-1].evidence["permissions"]] == [
            "allow", "allow", "cancel",
        ]  # fmt: skip


async def test_what_a_maid_does_is_told_while_it_works_and_the_approval_shows_all_attempts(tmp_path: Path) -> None:
    async def wrong(launch: Launch, watcher: Watcher) -> Finished:
        watcher.event(ToolUse("t1", "edit", "Edit out.txt", "in_progress"))
        watcher.event(Output("message", "half of it"))
        (launch.tree / "out.txt").write_text("half\n")
        return Finished(0, claim="all of it")

    async with maid_brain(tmp_path, [wrong, works], says("", DELEGATE), says("ok")) as house:
        await house.brain.say("please")
        told = str(house.brain.told("maid"))
        assert "Edit out.txt" in told and "half of it" in told
        [waiting] = await house.brain.pending()
    assert "+done" in waiting.args["diff"] and waiting.args["checks"][0]["outcome"] == "passed"
    first, second = map(str, waiting.args["attempts"])
    assert "wrong_output" in first and "passed" in second
