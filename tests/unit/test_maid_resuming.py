"""An agent goes on with its session after a verdict and when asked again; a broken one begins anew (D7, D10)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from butler.maids.acp import AcpLauncher
from butler.maids.contract import Finished, Launch, Stop, Watcher
from butler.maids.resuming import session_note, session_of
from butler.maids.store import Attempt
from tests.support.acp_launch import AGENT, QUICK, ask
from tests.support.headless import says
from tests.support.maid_brain import Act, MaidBrain, maid_brain

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")
WISH = {"title": "write out.txt", "kind": "edit", "locations": [{"path": "out.txt"}], "rawInput": {"path": "out.txt"}}
WRITES = {"write": {"out.txt": "done\n"}}


def agent(*steps: dict[str, Any], **script: Any) -> dict[str, Any]:
    """A row for the scripted agent."""
    words = json.dumps({"steps": steps, "loads": True, **script}).replace("{", "{{").replace("}", "}}")
    return {"kind": "acp", "command_template": (sys.executable, "-S", "-I", str(AGENT), words)}


async def acts(launch: Launch, watcher: Watcher) -> Finished:
    return await AcpLauncher(graces=QUICK).run(launch, watcher)


ACTS: list[Act] = [acts]


def received(house: MaidBrain, launch: Launch, method: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (launch.home / "received.jsonl").read_text().splitlines()]
    return [said["params"] for said in lines if said.get("method") == method]


async def parked_and_decided(house: MaidBrain, verdict: Any) -> list[Attempt]:
    await house.brain.say("please")
    [waiting] = await house.brain.pending()
    await house.brain.decide(waiting, verdict)
    await house.brain.go()
    return await house.attempts()


@pytest.mark.parametrize(("verdict", "word"), [("approve", "allowed"), ("reject", "refused")])
async def test_after_a_slow_persons_verdict_the_agent_keeps_its_context(
    tmp_path: Path, verdict: str, word: str
) -> None:
    async with maid_brain(tmp_path, ACTS, says("", DELEGATE), says("ok"), **agent(ask(WISH), WRITES)) as house:
        first, second, *_ = await parked_and_decided(house, verdict)
        one, two, *_ = house.fake.launches
        assert (first.status, first.spends) == ("cancelled", False)
        assert first.evidence["session"]["id"] == "session-1" and not first.evidence["session"]["loaded"]
        assert second.evidence["session"]["loaded"] is True
        assert (one.tree, one.home) == (two.tree, two.home) and one.temp != two.temp
        assert [said["sessionId"] for said in received(house, two, "session/load")][:1] == ["session-1"]
        texts = [said["prompt"][0]["text"] for said in received(house, two, "session/prompt")]
        assert f"- write out.txt: {word}" in texts[1] and texts[0] not in texts[1]
        assert (first.evidence["prompt"], second.evidence["prompt"]) == (texts[0], texts[1])
        assert second.evidence["permissions"][0]["answer"] == ("allow" if verdict == "approve" else "reject")


async def test_an_agent_that_can_not_load_is_begun_anew_and_this_is_told(tmp_path: Path) -> None:
    row = agent(ask(WISH), WRITES, refuse={"session/load": {"code": -32002, "message": "Session not found"}})
    async with maid_brain(tmp_path, ACTS, says("", DELEGATE), says("ok"), **row) as house:
        _, second = await parked_and_decided(house, "approve")
        assert second.status == "passed"
        assert second.evidence["session"]["loaded"] is False
        assert "Session not found" in second.evidence["session"]["detail"]
        told = [data["detail"] for data in house.brain.told("maid") if data["phase"] == "session"]
        assert len(told) == 1 and "Session not found" in told[0]


async def test_a_request_to_do_it_right_goes_into_the_same_session(tmp_path: Path) -> None:
    async with maid_brain(tmp_path, ACTS, says("", DELEGATE), says("ok"), **agent({"say": "Done!"})) as house:
        await house.brain.say("please")
        attempts = await house.attempts()
        assert [one.failure_class for one in attempts] == ["false_completion"] * 2
        assert [one.evidence["session"]["loaded"] for one in attempts] == [False, True]


async def test_an_agent_that_went_round_in_circles_gets_a_new_session(tmp_path: Path) -> None:
    call = {"sessionUpdate": "tool_call", "title": "look", "kind": "read", "rawInput": {"path": "readme.txt"}}
    calls = [{"update": {**call, "toolCallId": f"t{number}", "status": "completed"}} for number in range(9)]
    async with maid_brain(
        tmp_path, ACTS, says("", DELEGATE), says("ok"), **agent(*calls, {"hang": True})
    ) as house:  # fmt: skip
        await house.brain.say("please")
        attempts = await house.attempts()
        assert [one.failure_class for one in attempts] == ["loop_detected"] * 2
        assert [one.evidence["session"]["loaded"] for one in attempts] == [False, False]
        assert len({launch.home for launch in house.fake.launches}) == 2


OPENED = {"id": "s", "can_load": True, "loaded": False}
TREE = Path("/t/tree-1")


def attempt(session: dict[str, Any], status: Any = "failed", kind: Any = "wrong_output") -> Attempt:
    return Attempt("a", "r", 1, status, True, kind, "", "", {"session": session})


@pytest.mark.parametrize(
    ("finished", "resumable"),
    [
        (Finished(0, stop_reason="end_turn"), True),
        (Finished(None, stop_reason="cancelled", awaits_permission=True), True),
        (Finished(None, stop_reason=None, awaits_permission=True), False),  # killed before it answered
        (Finished(0, stop_reason="cancelled"), False),
        (Finished(0, stop_reason="max_tokens"), False),
        (Finished(0, stop_reason="end_turn", stopped=Stop("timeout", "late")), False),
    ],
)
def test_only_a_session_whose_turn_is_complete_is_gone_on_with(finished: Finished, resumable: bool) -> None:
    assert session_note(OPENED, finished, TREE, 1)["resumable"] is resumable
    assert not session_note({**OPENED, "can_load": False}, finished, TREE, 1)["resumable"]
    assert not session_note({**OPENED, "id": "x" * 501}, finished, TREE, 1)["resumable"]


def test_not_in_another_tree_nor_after_a_crash_or_a_trouble_of_the_session() -> None:
    session = session_note(OPENED, Finished(0, stop_reason="end_turn"), TREE, 1)
    assert session_of(attempt(session), TREE) == ("s", 1)
    assert session_of(attempt(session, "passed", None), TREE) == ("s", 1)
    assert session_of(attempt(session), Path("/t/tree-2")) is None
    assert session_of(attempt(session, "interrupted", None), TREE) is None
    for kind in ("provider_error", "timeout", "premature_stop", "loop_detected", None):
        assert session_of(attempt(session, "failed", kind), TREE) is None
