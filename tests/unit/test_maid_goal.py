"""Whoever is asked about a delegation reads which maid and model it would start (D2, A7)."""

from __future__ import annotations

from pathlib import Path

from tests.support.headless import says
from tests.support.maid_brain import maid_brain, works

TASK = {"intent": "work", "instruction": "make out.txt say done"}


async def test_the_approval_of_a_delegation_says_which_maid_and_model_would_start(tmp_path: Path) -> None:
    async with maid_brain(
        tmp_path, [works], says("", ("delegate", TASK, "call-d")), says("ok"), launch_verdict="approve", model="small-1"
    ) as house:
        await house.brain.say("please")
        [asked] = await house.brain.pending()
        assert asked.tool == "delegate"
        assert asked.reason.endswith("It would start the maid m, model small-1 at local.")


async def test_a_goal_is_told_where_it_is_known_and_in_one_line(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, [works], says("ok"), model="x\ny") as house:
        desk = house.desk
        assert desk.goal_of(TASK) == ""
        await desk.foresee(TASK)
        assert desk.goal_of(TASK) == "It would start the maid m, model x y at local."
        other = {**TASK, "intent": "unheard-of"}
        await desk.foresee(other)
        assert desk.goal_of(other).startswith("It would not be delegated: ")
