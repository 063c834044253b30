"""The brain runs without any service: turns, parks and resumes by the ledger alone (B1, A1, A5 to A9)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from langgraph.types import Command

from butler.errors import ModelFailed
from butler.memory.history import repair
from butler.types import Invocation, Json, ToolResult
from tests.support.headless import Brain, Line, open_brain, says
from tests.support.parts import MIA, audited, judge, rule, tool

ROOT = Path(__file__).parents[2]
BOTH = pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])


@pytest.fixture(autouse=True)
def strict_checkpoints() -> None:
    """Only plain JSON may pass, as under the server."""
    assert os.environ["LANGGRAPH_STRICT_MSGPACK"] == "true"


def asks(state: Json) -> list[Json]:
    """What the graph interrupted for."""
    return [entry.value for entry in state.get("__interrupt__", [])]


def results(brain: Brain) -> list[str]:
    """The tool results of the last request to the model, in order."""
    return [message["content"] for message in brain.model.heard[-1] if message["role"] == "tool"]


def check_history(brain: Brain) -> None:
    """Nothing that was sent needed repair: each call has its one result."""
    for request in brain.model.heard:
        assert repair(request) == request


@BOTH
async def test_a_turn_of_talk_ends_done_and_the_next_one_knows_it(tmp_path: Path, on_disk: bool) -> None:
    async with open_brain(tmp_path, says("hello there"), says("you said hi"), on_disk=on_disk) as brain:
        first = await brain.say("hi")
        assert first["ending"] == {"status": "done", "reply": "hello there", "error": None}
        assert first["usage"] == {"input_tokens": 10, "output_tokens": 5, "model_calls": 1}
        await brain.say("what did I say?")
        assert [message["content"] for message in brain.model.heard[1][1:]] == ["hi", "hello there", "what did I say?"]
        assert [data["text"] for data in brain.told("token")] == ["hello", "there", "you", "said", "hi"]


@BOTH
async def test_an_allowed_call_runs_at_once(tmp_path: Path, on_disk: bool) -> None:
    async with open_brain(tmp_path, says("", ("free", {"text": "a"})), says("done"), on_disk=on_disk) as brain:
        state = await brain.say("write a")
        assert asks(state) == [] and state["ending"]["reply"] == "done"
        assert brain.journal.lines == ["a"]
        assert results(brain) == ["wrote a"]
        assert [data["phase"] for data in brain.told("tool")] == ["proposed", "started", "done"]
        check_history(brain)


@BOTH
async def test_a_gated_call_parks_and_goes_on_by_the_ledger(tmp_path: Path, on_disk: bool) -> None:
    async with open_brain(tmp_path, says("I'll ask", ("gated", {"text": "a"})), says("done"), on_disk=on_disk) as brain:
        state = await brain.say("write a")
        [asked] = asks(state)
        [action] = await brain.pending()
        assert asked["action_id"] == action.action_id and asked["fingerprint"] == action.fingerprint
        assert asked["type"] == "tool_approval"
        assert asked["action_requests"][0]["args"] == {"text": "a"}
        assert brain.journal.lines == [] and len(brain.told("approval")) == 1
        await brain.decide(action, "approve")
        state = await brain.go()
        assert asks(state) == [] and state["ending"]["status"] == "done"
        assert brain.journal.lines == ["a"]
        assert state["usage"]["model_calls"] == 2
        check_history(brain)


@BOTH
@pytest.mark.parametrize(
    "payload",
    [
        True, "true", 1, "approve", {"approved": True}, {"decisions": [{"type": "approve"}]}, {"decision": "approve"},
        [{"type": "accept"}], {"answer": {"approved": True}}, "", {},
    ],
    ids=repr,
)  # fmt: skip
async def test_no_resume_payload_approves_anything(tmp_path: Path, on_disk: bool, payload: Any) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), says("done"), on_disk=on_disk) as brain:
        await brain.say("write a")
        for _ in range(2):
            state = await brain.go(Command(resume=payload))
            assert len(asks(state)) == 1
        [action] = await brain.pending()
        assert brain.journal.lines == [] and action.attempts == 0
        await brain.decide(action, "approve")
        state = await brain.go()
        assert state["ending"]["status"] == "done" and brain.journal.lines == ["a"]


async def test_resumes_by_interrupt_id_approve_nothing_either(tmp_path: Path) -> None:
    calls = [("gated", {"text": text}) for text in "ab"]
    async with open_brain(tmp_path, says("", *calls), says("done")) as brain:
        state = await brain.say("write")
        answers = {entry.id: {"type": "approve"} for entry in state["__interrupt__"]}
        assert len(asks(await brain.go(Command(resume=answers)))) == 2
        assert brain.journal.lines == [] and len(await brain.pending()) == 2


async def test_a_bare_resume_asks_again(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), says("done")) as brain:
        await brain.say("write a")
        for _ in range(3):
            assert len(asks(await brain.go())) == 1
        assert brain.journal.lines == [] and len(await brain.pending()) == 1


@pytest.mark.parametrize(
    ("kind", "more", "result", "ran"),
    [
        ("reject", {}, "Not run: a person rejected this action.", []),
        ("reject", {"reason": "smaller"},
         "Not run: a person rejected this action as it is and said why. Reason: smaller", []),
        ("respond", {"response": "42"}, "42", []),
        ("edit", {"args": {"text": "b"}},
         '(A person changed the arguments to {"text": "b"} before this ran.)\nwrote b', ["b"]),
    ],
)  # fmt: skip
async def test_the_model_hears_what_was_decided(
    tmp_path: Path, kind: Any, more: Json, result: str, ran: list[str]
) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), says("fine")) as brain:
        await brain.say("write a")
        [action] = await brain.pending()
        await brain.decide(action, kind, **more)
        assert (await brain.go())["ending"]["status"] == "done"
        assert results(brain) == [result] and brain.journal.lines == ran


@BOTH
async def test_two_gated_an_allowed_and_a_refused_call_in_one_message(tmp_path: Path, on_disk: bool) -> None:
    calls = [("gated", {"text": "g1"}), ("free", {"text": "f"}), ("never", {"text": "n"}), ("gated", {"text": "g2"}),
             ("free", {"wrong": 1}), ("no_such", {}), ("free", "{broken")]  # fmt: skip
    async with open_brain(tmp_path, says("", *calls), says("all done"), on_disk=on_disk) as brain:
        state = await brain.say("go")
        assert sorted(ask["action_requests"][0]["args"]["text"] for ask in asks(state)) == ["g1", "g2"]
        assert brain.journal.lines == ["f"]  # doesn't wait for the others
        first, second = await brain.pending()
        await brain.decide(second, "approve")
        state = await brain.go()
        assert [ask["action_id"] for ask in asks(state)] == [first.action_id]
        assert brain.journal.lines == ["f", "g2"]
        await brain.decide(first, "reject")
        state = await brain.go()
        assert state["ending"]["reply"] == "all done"
        assert brain.journal.lines == ["f", "g2"]
        told = results(brain)
        assert [told[0], told[1], told[3]] == ["Not run: a person rejected this action.", "wrote f", "wrote g2"]
        assert told[2].startswith("Refused by policy")
        assert "don't fit" in told[4] and "no tool 'no_such'" in told[5] and "not valid JSON" in told[6]
        assert len(told) == 7 and len(brain.model.heard) == 2
        check_history(brain)


async def test_decided_both_at_once_each_runs_once(tmp_path: Path) -> None:
    calls = [("gated", {"text": text}) for text in "abc"]
    async with open_brain(tmp_path, says("", *calls), says("done")) as brain:
        await brain.say("go")
        for action in await brain.pending():
            await brain.decide(action, "approve")
        state = await brain.go()
        assert state["ending"]["status"] == "done" and sorted(brain.journal.lines) == ["a", "b", "c"]
        assert results(brain) == ["wrote a", "wrote b", "wrote c"]


async def test_the_bound_of_rounds_counts_across_parks(tmp_path: Path) -> None:
    lines = [says(f"round {n}", ("gated" if n % 2 else "free", {"text": str(n)})) for n in range(1, 5)]
    async with open_brain(tmp_path, *lines, says("spare"), max_tool_rounds=3) as brain:
        state = await brain.say("go")
        while asks(state):
            [action] = await brain.pending()
            await brain.decide(action, "approve")
            state = await brain.go()
        assert brain.journal.lines == ["1", "2", "3"]
        assert state["ending"]["status"] == "done"
        assert state["ending"]["reply"].startswith("round 4\n\nI stopped here: the limit of 3 tool rounds")
        assert len(brain.told("notice")) == 1
        assert len(brain.model.heard) == 4
        await brain.say("go on")  # the history is sound, and the new turn has rounds of its own
        check_history(brain)


async def test_a_turn_of_many_rounds_doesnt_meet_the_graphs_own_limit(tmp_path: Path) -> None:
    lines = [says("", ("free", {"text": str(n)})) for n in range(30)]
    async with open_brain(tmp_path, *lines, says("done"), max_tool_rounds=30) as brain:
        assert (await brain.say("go"))["ending"]["reply"] == "done"
        assert len(brain.journal.lines) == 30


async def test_call_ids_that_come_again_stand_for_new_calls(tmp_path: Path) -> None:
    lines = [says("", ("free", {"text": text}, "same")) for text in "ab"]
    twice = says("", ("free", {"text": "c"}, "same"), ("free", {"text": "d"}, "same"))
    async with open_brain(tmp_path, *lines, twice, says("done")) as brain:
        await brain.say("go")
        assert sorted(brain.journal.lines) == ["a", "b", "c", "d"]
        assert results(brain) == ["wrote a", "wrote b", "wrote c", "wrote d"]
        check_history(brain)


async def test_an_effect_whose_receipt_was_lost_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_brain(tmp_path, says("", ("free", {"text": "a"})), says("done")) as brain:
        ledger = type(brain.faculties.ledger)
        real = ledger.finish

        async def fail(*_: Any) -> None:
            raise OSError("the disk is full")

        monkeypatch.setattr(ledger, "finish", fail)
        with pytest.raises(OSError, match="disk is full"):
            await brain.say("go")
        monkeypatch.setattr(ledger, "finish", real)
        with pytest.raises(RuntimeError, match="started elsewhere"):
            await brain.go()
        assert brain.journal.lines == ["a"]


async def test_a_tool_that_raises_gives_a_result_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def burn(call: Invocation) -> ToolResult:
        raise ValueError(f"no {call.args['text']}")

    burning = tool("burn", "allow", burn)
    async with open_brain(tmp_path, says("", ("burn", {"text": "a"})), says("sorry"), tools=[burning]) as brain:
        assert (await brain.say("go"))["ending"]["reply"] == "sorry"
        assert results(brain) == ["The tool failed: ValueError: no a"]


async def test_policy_that_became_stricter_while_parked_is_obeyed(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), on_disk=True) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        await brain.decide(action, "approve")
    stricter = [rule("none", "gated", "refuse", "closed")]
    async with open_brain(tmp_path, says("pity"), rules=stricter, on_disk=True) as brain:
        assert (await brain.go())["ending"]["reply"] == "pity"
        assert brain.journal.lines == [] and results(brain) == ["Not run: policy now refuses it: closed"]


async def test_an_allowed_call_that_policy_asks_for_by_now_parks(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("free", {"text": "a"})), says("done")) as brain:
        first, then = brain.faculties.judge, judge(brain.faculties.tools, rule("asks", "free", "approve"))
        with patch.object(first, "at_execution", then.at_execution):
            [asked] = asks(await brain.say("go"))
        assert (asked["rule"], brain.journal.lines) == ("asks", [])
        [action] = await brain.pending()
        await brain.decide(action, "approve")
        assert (await brain.go())["ending"]["reply"] == "done"
        assert brain.journal.lines == ["a"]


async def test_a_model_that_fails_ends_the_turn_and_not_the_talk(tmp_path: Path) -> None:
    lines: list[Line] = [ModelFailed("It is down.", partial="half"), says("back again")]
    async with open_brain(tmp_path, *lines) as brain:
        state = await brain.say("hi")
        assert state["ending"]["status"] == "failed"
        assert state["ending"]["error"] == {"code": "model_unavailable", "detail": "It is down."}
        assert state["ending"]["reply"] == "half\n\nI'm sorry, I could not finish this: It is down."
        assert (await brain.say("and now?"))["ending"]["reply"] == "back again"
        assert [message["content"] for message in brain.model.heard[-1][1:]] == ["hi", "half", "and now?"]
        check_history(brain)


async def test_a_cut_answer_says_so_to_the_person_and_not_to_the_model(tmp_path: Path) -> None:
    async with open_brain(tmp_path, replace(says("once upon"), finish_reason="length"), says("a time")) as brain:
        state = await brain.say("a story")
        cut = "The answer was cut at the model's length limit; say “go on” to continue."
        assert state["ending"] == {"status": "done", "reply": f"once upon\n\n({cut})", "error": None}
        assert "".join(data["text"] for data in brain.told("token")).endswith(f"({cut})")
        assert brain.told("notice") == [{"text": cut}]
        await brain.say("go on")
        assert [message["content"] for message in brain.model.heard[-1][1:]] == ["a story", "once upon", "go on"]


@BOTH
async def test_commands_propose_their_call_without_any_model(tmp_path: Path, on_disk: bool) -> None:
    async with open_brain(tmp_path, model=False, on_disk=on_disk) as brain:
        state = await brain.say("/free text='a b'")
        assert state["ending"] == {"status": "done", "reply": "wrote a b", "error": None}
        state = await brain.say('/gated {"text": "c"}')
        assert len(asks(state)) == 1
        [action] = await brain.pending()
        await brain.decide(action, "approve")
        assert (await brain.go())["ending"]["reply"] == "wrote c"
        assert (await brain.say("/never text=x"))["ending"]["reply"].startswith("That did not work. Refused by policy")
        assert (await brain.say("/fre text=x"))["ending"]["error"]["code"] == "not_found"
        assert (await brain.say("hello"))["ending"]["error"]["code"] == "model_unavailable"
        assert brain.journal.lines == ["a b", "c"]


async def test_a_members_call_waits_for_an_admin(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), says("done")) as brain:
        await brain.say("go", MIA)
        [action] = await brain.pending()
        with pytest.raises(Exception, match="You may not decide"):
            await brain.decide(action, "approve", MIA)
        assert (action.requested_by, action.requester_role) == ("mia", "member")
        await brain.decide(action, "approve")
        await brain.go()
        events = await brain.database.read(lambda connection: audited(connection, action.action_id))
        assert list(events) == ["requested", "approved", "started", "done"]


async def test_threads_dont_hear_each_other(tmp_path: Path) -> None:
    lines = [says("", ("gated", {"text": "a"})), says("fine"), says("done")]
    async with open_brain(tmp_path, *lines) as brain:
        await brain.say("go", thread_id="one")
        assert (await brain.say("hi", thread_id="two"))["ending"]["reply"] == "fine"
        assert [message["content"] for message in brain.model.heard[1][1:]] == ["hi"]
        [action] = await brain.pending("one")
        await brain.decide(action, "approve")
        assert (await brain.go(thread_id="one"))["ending"]["reply"] == "done"


async def test_a_park_outlives_its_process(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("gated", {"text": "a"})), on_disk=True) as brain:
        await brain.say("write a")
    async with open_brain(tmp_path, on_disk=True) as brain:
        [action] = await brain.pending()
        await brain.decide(action, "approve")
    async with open_brain(tmp_path, says("done"), on_disk=True) as brain:
        assert (await brain.go())["ending"]["reply"] == "done"
        assert brain.journal.lines == ["a"]
        check_history(brain)
    async with open_brain(tmp_path, on_disk=True) as brain:
        assert (await brain.go())["ending"]["reply"] == "done"  # over is over
        assert brain.journal.lines == [] and brain.model.heard == []


def test_the_brain_knows_nothing_of_http() -> None:
    look = (
        "import sys, graph.build, nodes.think, butler.approvals.ledger, graph.persistence\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'fastapi', 'starlette', 'uvicorn', 'sse_starlette', 'service', 'server'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
