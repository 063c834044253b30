"""What a run of the dev server may do: the graph and its books in this process, without the dev server (A7, E1)."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from butler.approvals.judge import Judge
from butler.errors import ConfigError
from graph.studio import Asked, Refused
from tests.conftest import STANDARD_RULES
from tests.support.mcp_links import RAW
from tests.support.scripted_model import ScriptedModel
from tests.support.server import OWNER_TOKEN, ROOT, ButlerServer
from tests.support.studio_bench import bench
from tests.support.workshop import standard_tools, tool

APPROVE = {"type": "approve"}


@pytest.fixture
def house(tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[ButlerServer]:
    """A fresh installation, for the dev server's process and for a Butler server after it."""
    server = ButlerServer(tmp_path, model.url)
    server.workshop.write_policy(*STANDARD_RULES)
    for name, value in server.env.items():
        if name.startswith("BUTLER_"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    yield server
    server.close()


async def test_a_turn_parks_is_decided_and_is_in_the_transcript_of_the_server(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=once")
        assert house.workshop.effects() == []
        await at.decide(thread_id, APPROVE)
        [(action_id, _)] = house.workshop.effects("once")
        with pytest.raises(Refused, match="not_parked"):
            await at.decide(thread_id, APPROVE)
        assert len(house.workshop.effects()) == 1
    owner = house.start().client()
    assert owner.transcript(thread_id) == [("user", "/append_line text=once"), ("assistant", "wrote once\n")]
    decided = owner.approval(action_id)
    assert (decided["decision"]["via"], decided["decision"]["by"]) == ("studio", "owner")
    assert owner.get("/threads")["items"][0]["title"] == "/append_line text=once"


async def test_edit_reject_and_respond_do_what_they_say(house: ButlerServer) -> None:
    async with bench() as at:
        edited = await at.say("/append_line text=first")
        with pytest.raises(Refused, match="can't change the tool"):
            await at.decide(edited, {"type": "edit", "edited_action": {"name": "note_line", "args": {"text": "x"}}})
        await at.decide(edited, {"type": "edit", "edited_action": {"name": "append_line", "args": {"text": "second"}}})
        rejected = await at.say("/append_line text=third")
        await at.decide(rejected, {"type": "reject", "message": "not today"})
        answered = await at.say("/append_line text=fourth")
        await at.decide(answered, {"type": "respond", "message": "it is written already"})
        assert [text for _, text in house.workshop.effects()] == ["second"]
        assert "not today" in (await at.messages(rejected))[-1]["content"]
        assert "it is written already" in (await at.messages(answered))[-1]["content"]


NOT_AN_ANSWER: list[Any] = [
    Command(resume=True), Command(resume=None), Command(resume="approve"), Command(resume={}), Command(resume=0),
    Command(resume={"decisions": []}), Command(resume={"decisions": [{"type": "approved"}]}),
    Command(resume={"decisions": [APPROVE, APPROVE]}), Command(resume={"decisions": [{**APPROVE, "for": "all"}]}),
    Command(resume={"decisions": [{"decision": "approve", "action_id": "another"}]}),
    Command(resume=[{"type": "accept", "args": None}]), Command(resume={"0" * 32: {"decisions": [APPROVE]}}),
    Command(resume={"0" * 32: True}), Command(goto="act"), Command(update={"calls": []}),
    Command(resume={"decisions": [APPROVE]}, goto="act"),
]  # fmt: skip


async def test_any_other_resume_approves_nothing(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=never")
        waiting = await at.waits(thread_id)
        for command in NOT_AN_ANSWER:
            with pytest.raises(Refused):
                await at.run(thread_id, command)
            assert await at.waits(thread_id) == waiting
        assert house.workshop.effects() == []


async def test_an_empty_run_puts_the_question_again(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=never")
        waiting = await at.waits(thread_id)
        nothing: tuple[Any, ...] = (None, {})
        for given in nothing:
            parts = await at.run(thread_id, given)
            assert list(parts[-1][1]["__interrupt__"]) == waiting == await at.waits(thread_id)
            assert house.workshop.effects() == []
            assert await at.run(str(uuid.uuid4()), given) == []


async def test_an_answer_may_name_its_interrupt_and_no_other(house: ButlerServer, model: ScriptedModel) -> None:
    async with bench() as at:
        one, two = await at.say("/append_line text=one"), await at.say("/append_line text=two")
        [first], [second] = await at.waits(one), await at.waits(two)
        with pytest.raises(Refused, match="stale_decision"):
            await at.run(one, Command(resume={second.id: {"decisions": [APPROVE]}}))
        await at.run(one, Command(resume={first.id: {"decisions": [APPROVE]}}))
        assert [text for _, text in house.workshop.effects()] == ["one"]


async def test_a_message_does_not_drop_what_waits(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=kept")
        waiting = await at.waits(thread_id)
        with pytest.raises(Refused, match="parked"):
            await at.say("never mind", thread_id)
        assert await at.waits(thread_id) == waiting


async def test_what_the_policy_reserves_for_an_admin_is_not_decided_here(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/delete_thing target=everything")
        with pytest.raises(Refused, match="not_an_approver"):
            await at.decide(thread_id, APPROVE)
        draft = await at.say("/delete_thing target=draft-1")
        await at.decide(draft, APPROVE)
        assert [text for _, text in house.workshop.effects()] == ["draft-1"]
    owner = house.start().client()
    rows = owner.get("/audit")["items"]
    assert [row["actor"] for row in rows if "not_an_approver" in str(row)] == ["owner"]
    [waiting] = owner.approvals(thread_id)
    assert waiting["status"] == "pending"


async def test_unless_the_owner_wants_it(house: ButlerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUTLER_STUDIO_ADMIN", "true")
    async with bench() as at:
        await at.decide(await at.say("/delete_thing target=everything"), APPROVE)
        assert [text for _, text in house.workshop.effects()] == ["everything"]


async def test_an_answer_sent_before_the_question_is_not_an_answer_to_it(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=first")
        early = _uuid7(time.time() - 5)
        with pytest.raises(Refused, match="stale_decision"):
            await at.decide(thread_id, APPROVE, run_id=early)
        await at.decide(thread_id, APPROVE, run_id=_uuid7(time.time()))
        assert len(house.workshop.effects()) == 1


async def test_an_answer_to_an_older_state_is_refused(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = await at.say("/append_line text=first")
        state = await at.graph.aget_state({"configurable": {"thread_id": thread_id}})
        seen = state.config["configurable"]["checkpoint_id"]
        older = state.parent_config["configurable"]["checkpoint_id"] if state.parent_config else ""
        with pytest.raises(Refused, match="stale_decision"):
            await at.decide(thread_id, APPROVE, checkpoint_id=older)
        await at.decide(thread_id, APPROVE, checkpoint_id=seen)
        assert len(house.workshop.effects()) == 1


async def test_what_the_dev_server_runs_again_is_taken_in_once(house: ButlerServer) -> None:
    async with bench() as at:
        run_id, thread_id = str(uuid.uuid4()), str(uuid.uuid4())
        for _ in range(2):
            await at.say("/note_line text=once", thread_id, run_id=run_id)
        assert len(house.workshop.effects("once")) == 1


async def test_a_turn_that_was_cut_off_goes_on(house: ButlerServer) -> None:
    thread_id, run_id = str(uuid.uuid4()), str(uuid.uuid4())
    async with bench() as at:
        message = {"messages": [{"type": "human", "content": "/note_line text=cut-off"}]}
        asked = Asked(thread_id, run_id, at.user, message, {})
        assert await at.saver.turns.begin(asked) is not None
    async with bench() as at:
        await at.run(thread_id, None)
        assert len(house.workshop.effects("cut-off")) == 1
        await at.say("/note_line text=next", thread_id)
        assert len(house.workshop.effects("next")) == 1


async def test_what_goes_wrong_inside_ends_the_turn_and_the_thread_goes_on(
    house: ButlerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench() as at:
        thread_id = str(uuid.uuid4())
        with monkeypatch.context() as broken:
            broken.setattr(Judge, "on_proposal", _broken)
            with pytest.raises(Refused, match="Something went wrong inside Butler"):
                await at.say("/note_line text=never", thread_id)
        assert "internal error" in (await at.messages(thread_id))[-1]["content"]
        await at.say("/note_line text=later", thread_id)
        assert [text for _, text in house.workshop.effects()] == ["later"]


async def test_other_input_is_refused_and_leaves_no_thread(house: ButlerServer) -> None:
    async with bench() as at:
        thread_id = str(uuid.uuid4())
        image = [{"type": "image_url", "image_url": {"url": "data:,"}}]
        tries: list[Any] = [
            {"incoming": {"user_role": "admin"}}, {"messages": []}, {"messages": [{"type": "ai", "content": "I"}]},
            {"messages": [{"type": "human", "content": " "}]}, {"messages": [{"type": "human", "content": image}]},
            {"messages": [{"type": "human", "content": "/help"}]}, "hello", 7,
        ]  # fmt: skip
        for given in tries:
            with pytest.raises(Refused):
                await at.run(thread_id, given)
    assert house.start().client().get("/threads")["items"] == []


async def test_nobody_but_an_admin_runs_anything(house: ButlerServer) -> None:
    async with bench() as at:
        for user in (None, {"identity": "nobody"}):
            at.user = user
            with pytest.raises(Refused, match="unauthorized"):
                await at.say("/note_line text=never")
        assert house.workshop.effects() == []


async def test_a_state_is_not_edited_and_shows_no_secret(house: ButlerServer) -> None:
    house.workshop.write_tools(*standard_tools(), tool("key_line", "approve") | {
        "input_schema": {"type": "object", "properties": {"text": {"type": "string", "writeOnly": True}}}})  # fmt: skip
    async with bench() as at:
        thread_id = await at.say("/key_line text=very-secret-1234")
        shown = await at.messages(thread_id)
        assert shown[-1]["tool_calls"][0]["args"] == {"text": "***"}
        config: Any = {"configurable": {"thread_id": thread_id}}
        with pytest.raises(Refused, match="forbidden"):
            await at.graph.aupdate_state(config, {"calls": []})
        told = await at.say(f"the token is {OWNER_TOKEN}")
        assert OWNER_TOKEN not in str(await at.messages(told))
        metadata = (await at.graph.aget_state(config)).metadata or {}
        assert "x-evil" not in metadata


async def test_one_process_at_a_time_serves_a_data_directory(
    house: ButlerServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with bench():
        with pytest.raises(AssertionError, match="exit status 2"):
            house.start()
        assert "another Butler serves" in house.stderr
    house.start()
    with pytest.raises(ConfigError):
        async with bench():
            pass
    told = capsys.readouterr().err
    assert "Studio can't start" in told and "another Butler serves" in told


async def test_a_wrong_folder_is_named(
    house: ButlerServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="project's folder"):
        async with bench():
            pass
    assert "project's folder" in capsys.readouterr().err


async def test_the_server_goes_on_with_what_was_parked_here_and_the_other_way_round(house: ButlerServer) -> None:
    owner = house.start().client()
    there = owner.chat("/append_line text=there")["thread_id"]
    house.stop()
    async with bench() as at:
        here = await at.say("/append_line text=here")
        await at.decide(there, APPROVE)
        assert len(house.workshop.effects("there")) == 1
    house.start()
    owner.when_status(here, "parked")
    owner.decided(here, {"type": "approve"})
    assert [text for _, text in house.workshop.effects()] == ["there", "here"]
    assert owner.get(f"/threads/{there}")["status"] == "idle"


async def test_commands_work_without_a_model(house: ButlerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUTLER_BASE_URL")
    async with bench() as at:
        thread_id = await at.say("/note_line text=alone")
        assert len(house.workshop.effects("alone")) == 1
        await at.say("hello", thread_id)
        assert "No model is configured" in (await at.messages(thread_id))[-1]["content"]


async def test_mcp_servers_are_there_as_in_the_server(house: ButlerServer) -> None:
    house.workshop.write_mcp(files={"command": sys.executable, "args": ["-S", "-E", str(RAW), "good"]})
    async with bench() as at:
        thread_id = await at.say("/files__echo text=hello")
        [waiting] = await at.waits(thread_id)
        assert waiting.value["action_requests"][0]["name"] == "files__echo"
        await at.decide(thread_id, APPROVE)
        assert "hello" in (await at.messages(thread_id))[-1]["content"]


async def test_a_message_behind_a_turn_that_was_cut_off_is_answered_after_it(house: ButlerServer) -> None:
    thread_id = str(uuid.uuid4())
    async with bench() as at:
        message = {"messages": [{"type": "human", "content": "/note_line text=cut-off"}]}
        assert await at.saver.turns.begin(Asked(thread_id, str(uuid.uuid4()), at.user, message, {})) is not None
    async with bench() as at:
        await at.say("/note_line text=next", thread_id)
        assert [text for _, text in house.workshop.effects()] == ["cut-off", "next"]
        assert (await at.messages(thread_id))[-1]["content"] == "wrote next\n"
        await at.run(thread_id, {"messages": "/note_line text=stopped"}, interrupt_before="*")
        await at.say("/note_line text=last", thread_id)
        assert [text for _, text in house.workshop.effects()][2:] == ["stopped", "last"]


async def test_no_stream_mode_and_no_history_shows_a_secret(house: ButlerServer) -> None:
    house.workshop.write_tools(*standard_tools(), tool("key_line", "approve") | {
        "input_schema": {"type": "object", "properties": {"text": {"type": "string", "writeOnly": True}}}})  # fmt: skip
    modes = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "debug")
    async with bench() as at:
        thread_id = str(uuid.uuid4())
        told = await at.run(thread_id, {"messages": f"my token is {OWNER_TOKEN}"}, modes=modes)
        told += await at.run(thread_id, {"messages": "/key_line text=very-secret-1234"}, modes=modes)
        told += await at.run(thread_id, Command(resume={"decisions": [{"type": "reject"}]}), modes=modes)
        config: Any = {"configurable": {"thread_id": thread_id}}
        told += [state async for state in at.graph.aget_state_history(config)]
        assert {mode for mode, _ in told[: -len(told) // 2]} >= {"values", "tasks", "debug"}
        assert OWNER_TOKEN not in repr(told) and "very-secret-1234" not in repr(told)
        with pytest.raises(Refused, match="`events` is not offered"):
            at.graph.astream_events({"messages": "hello"}, config)


async def test_a_thread_that_the_server_has_folded_shows_its_notes_and_goes_on(
    house: ButlerServer, model: ScriptedModel
) -> None:
    owner = house.start(BUTLER_CONTEXT_COMPACTION_RECENT_WINDOW="2").client()
    thread_id = owner.chat("My sister Clara is allergic to peanuts.")["thread_id"]
    owner.chat("Our budget is 3200 euros.", thread_id)
    owner.chat("We leave at 6:40.", thread_id)
    notes = [{"source": 1, "kind": "fact", "text": "Sister Clara is allergic to peanuts."}]
    model.reply(purpose="compaction", text=json.dumps({"notes": notes}))
    owner.chat("/compact", thread_id)
    owner.chat("And now?", thread_id)
    house.stop()
    async with bench() as at:
        await at.say("/note_line text=folded", thread_id)
        state = await at.graph.aget_state({"configurable": {"thread_id": thread_id}})
        assert "Sister Clara is allergic to peanuts." in str(state.values["notes"])
        assert "Clara" not in str(state.values["messages"])
        assert len(house.workshop.effects("folded")) == 1


def _broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken on purpose")


def _uuid7(moment: float) -> str:
    return str(uuid.UUID(int=(int(moment * 1000) << 80) | (7 << 76) | (2 << 62) | 1))
