"""A turn of an agent over the Agent Client Protocol, with real processes that play the agent (D4, D11)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from butler.maids.acp import AcpLauncher, attempt, wire
from butler.maids.acp.places import Place
from butler.maids.acp.updates import Turn
from butler.maids.contract import MaidEvent, Output, SessionOpened, Started, Stop, Tokens, ToolUse
from config.maid_types import Limits
from tests.support.acp_launch import QUICK, Diary, Room


@pytest.fixture
def room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Room]:
    yield Room(tmp_path)
    assert caplog.records == []


async def test_a_turn_is_told_as_events_and_proves_nothing(room: Room) -> None:
    finished, diary = await room.run(
        {"say": "Let me see. "},
        {"think": "hm"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Writing", "rawInput": {}}},
        {"write": {"a.txt": "a"}},
        {
            "update": {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "1",
                "status": "completed",
                "rawInput": {"path": "a.txt", "content": "a"},
                "content": [{"type": "content", "content": {"type": "text", "text": "written"}}],
            }
        },
        {"say": "All "},
        {"say": "done."},
        {"stderr": "careful\n"},
        usage={"usage": {"totalTokens": 7, "inputTokens": 5, "outputTokens": 2}},
    )
    assert (finished.stop_reason, finished.exit_code, finished.stopped) == ("end_turn", 0, None)
    assert (finished.claim, finished.tokens, finished.left_behind) == ("All done.", Tokens(5, 2), 0)
    assert finished.stderr_tail == "careful\n"
    assert isinstance(diary.events[0], Started)
    assert diary.text == "Let me see. All done."
    assert Output("thought", "hm") in diary.events
    assert diary.tools == [
        ToolUse("1", "other", "Writing", "pending"),
        ToolUse(
            "1",
            "edit",
            "Writing",
            "completed",
            (room.tree / "a.txt",),
            {"path": "a.txt", "content": "a"},
            "written",
        ),
    ]
    (asked,) = room.said("session/prompt")
    assert asked["prompt"] == [{"type": "text", "text": "do it"}]
    assert room.said("session/new")[0]["cwd"] == str(room.tree)
    assert room.said("initialize")[0]["protocolVersion"] == 1


async def test_a_tool_call_that_was_never_begun_is_told_all_the_same_and_each_state_once(room: Room) -> None:
    late = {"sessionUpdate": "tool_call_update", "toolCallId": "x", "kind": "read", "locations": [{"path": "../b"}]}
    _, diary = await room.run(
        {"update": late},
        {"update": late},
        {"update": {**late, "status": "no such status", "somethingNew": {"a": [1]}}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "failed", "rawOutput": {"e": 1}}},
    )
    outside = room.tree.parent / "b"
    assert [(use.status, use.locations, use.output) for use in diary.tools] == [
        ("pending", (outside,), ""),
        ("failed", (outside,), '{"e": 1}'),
    ]


def test_the_output_of_a_command_goes_before_what_else_is_shown(tmp_path: Path) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "Proposed: cat a"}}]
    said = {"toolCallId": "1", "status": "completed", "content": content}
    turn = Turn(Place.of(tmp_path, tmp_path))
    use = turn.tool({**said, "rawOutput": {"stdout": "x" * 5000 + "end", "exit_code": 0}})
    assert use is not None and use.output.endswith("xend") and len(use.output) == 4096
    use = turn.tool({**said, "toolCallId": "2", "rawOutput": {"stdout": ""}})
    assert use is not None and use.output == "Proposed: cat a"


async def test_what_the_protocol_does_not_know_is_refused_without_noise_and_the_turn_goes_on(room: Room) -> None:
    finished, diary = await room.run(
        {"notify": ["vendor/notify/mode", {"a": 1}]},
        {"notify": ["elicitation/complete", {}]},
        {"notify": ["_own/thing", {}]},
        {"call": ["vendor/drain", {}]},
        {"call": ["_own/ask", {}]},
        {"call": ["fs/write_text_file", {"path": "a", "content": "b"}]},
        {"call": ["terminal/create", {"command": "true"}]},
        {"call": ["elicitation/create", {"message": "?", "mode": "form", "requestedSchema": {}}]},
        {"raw": "this is no JSON"},
        {"raw": "[1, 2]"},
        {"raw": '{"jsonrpc": "2.0", "id": [1], "result": {}}'},
        {"raw": '{"jsonrpc": "2.0", "id": 99, "error": "text"}'},
        {"notify": ["session/update", {"update": {"sessionUpdate": "of tomorrow", "x": 1}}]},
        {"notify": ["session/update", None]},
        {"say": "still here"},
    )
    assert finished.stop_reason == "end_turn"
    assert diary.text == "still here"
    assert [answer["error"]["code"] for answer in room.answers()] == [-32601] * 5
    assert not (room.tree / "a").exists()


@pytest.mark.parametrize("reason", ["max_tokens", "of tomorrow"])
async def test_the_stop_reason_is_kept_as_it_was_said(room: Room, reason: str) -> None:
    finished, _ = await room.run({"end": reason})
    assert (finished.stop_reason, finished.stopped) == (reason, None)


async def test_an_error_of_the_agent_is_written_down(room: Room) -> None:
    finished, _ = await room.run({"error": {"code": -32603, "message": "Internal error", "data": {"details": "full"}}})
    assert finished.stop_reason == "error -32603: Internal error (full)"
    assert finished.stopped is None


@pytest.mark.parametrize("code", [-32000, 529])
async def test_an_agent_that_has_no_way_to_its_provider_ends_as_provider_error(room: Room, code: int) -> None:
    finished, _ = await room.run(refuse={"session/new": {"code": code, "message": "Authentication required"}})
    assert finished.stopped == Stop("provider_error", f"error {code}: Authentication required")


async def test_without_a_session_it_is_a_launch_error(room: Room) -> None:
    finished, _ = await room.run(refuse={"session/new": {"code": -32603, "message": "broken"}})
    assert finished.stopped == Stop("launch_error", "No session: error -32603: broken")
    finished, _ = await room.run(silent_start=True, limits=Limits(session_ready=0.2))
    assert finished.stopped == Stop("launch_error", "No session was open after 0.2 s.")


async def test_a_program_that_is_not_there_or_ends_at_once_is_a_launch_error(room: Room) -> None:
    launch, diary = room.launch(), Diary()
    missing = replace(launch, maid=replace(launch.maid, command_template=("no-such-agent",)))
    finished = await AcpLauncher().run(missing, diary)
    assert finished.stopped is not None and finished.stopped.failure_class == "launch_error"
    assert "no-such-agent" in finished.stopped.detail
    assert diary.events == []
    ending = replace(launch, maid=replace(launch.maid, command_template=("false",)))
    finished = await AcpLauncher().run(ending, diary)
    assert finished.stopped is not None and finished.stopped.failure_class == "launch_error"
    assert finished.exit_code == 1


async def test_an_agent_that_dies_in_its_turn_is_seen(room: Room) -> None:
    finished, _ = await room.run({"say": "well"}, {"exit": 3})
    assert (finished.stop_reason, finished.exit_code, finished.claim) == ("connection closed", 3, "well")
    assert finished.stopped is None


async def test_a_mode_is_set_by_the_way_the_agent_offers(room: Room) -> None:
    await room.run(modes=["auto", "approve"], mode="approve")
    assert room.said("session/set_mode") == [{"sessionId": "session-1", "modeId": "approve"}]
    option = {
        "id": "mode",
        "name": "Mode",
        "type": "select",
        "category": "mode",
        "currentValue": "build",
        "options": [{"value": "build", "name": "Build"}, {"value": "plan", "name": "Plan"}],
    }
    await room.run(config_options=[option], mode="plan")
    (said,) = room.said("session/set_config_option")
    assert (said["configId"], said["value"]) == ("mode", "plan")
    finished, _ = await room.run(modes=["auto"], mode="chat")
    assert finished.stopped == Stop("launch_error", "The agent has no mode 'chat'. It has auto.")


async def test_an_earlier_session_is_loaded_and_its_history_not_told_again(room: Room) -> None:
    history = [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "long ago"}}]
    finished, diary = await room.run({"say": "new"}, loads=True, history=history, load="session-0")
    assert (diary.text, finished.claim) == ("new", "new")
    assert room.said("session/load")[0]["sessionId"] == "session-0"
    assert room.said("session/prompt")[0]["sessionId"] == "session-0"
    assert room.said("session/new") == []
    [opened] = [one for one in diary.events if isinstance(one, SessionOpened)]
    assert opened == SessionOpened("session-0", can_load=True, loaded=True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "can't load"),
        ({"loads": True, "refuse": {"session/load": {"code": -32002, "message": "Session not found"}}}, "not found"),
        ({"loads": True, "deaf_to": "session/load", "limits": Limits(session_ready=1.0)}, "within 0.5 s"),
    ],
)
async def test_where_an_earlier_session_can_not_be_loaded_a_new_one_is_begun(
    room: Room, options: dict[str, Any], why: str
) -> None:
    finished, diary = await room.run({"say": "new"}, load="session-0", **options)
    assert (finished.stopped, finished.claim) == (None, "new")
    [opened] = [one for one in diary.events if isinstance(one, SessionOpened)]
    assert (opened.session_id, opened.loaded) == ("session-1", False) and why in opened.detail
    assert room.said("session/prompt")[0]["sessionId"] == "session-1"


async def test_what_is_left_of_a_plan_is_counted(room: Room) -> None:
    entries = [{"content": one, "priority": "low", "status": one} for one in ("completed", "pending", "in_progress")]
    finished, _ = await room.run({"update": {"sessionUpdate": "plan", "entries": entries}})
    assert finished.plan_left == 2


async def test_a_stop_of_the_watcher_cancels_the_turn_and_ends_the_agent(room: Room) -> None:
    stop = Stop("loop_detected", "enough")

    def halt(event: MaidEvent) -> Stop | None:
        return stop if isinstance(event, ToolUse) else None

    call = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "again"}
    finished, diary = await room.run({"update": call}, {"hang": True}, diary=Diary(halt=halt))
    assert (finished.stopped, finished.stop_reason, finished.exit_code) == (stop, "cancelled", 0)
    assert len(diary.tools) == 1


async def test_a_watcher_may_interrupt_between_two_events(room: Room) -> None:
    class Restless(Diary):
        async def interrupted(self) -> Stop:
            await self.until(lambda: self.text)
            return Stop("provider_error", "five times 500")

    finished, _ = await room.run({"say": "x"}, {"hang": True}, diary=Restless())
    assert (finished.stopped, finished.stop_reason) == (Stop("provider_error", "five times 500"), "cancelled")


async def test_silence_and_the_wall_clock_end_an_attempt(room: Room) -> None:
    finished, _ = await room.run({"hang": True}, limits=Limits(silence=0.2))
    assert finished.stopped == Stop("timeout", "Nothing came for 0.2 s.")
    running = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "serve"}
    finished, _ = await room.run({"update": running}, {"hang": True}, limits=Limits(silence=1.0))
    assert finished.stopped == Stop("hung_foreground", "Nothing came for 1 s while a tool was running.")
    finished, _ = await room.run({"hang": True}, timeout=0.3)
    assert finished.stopped == Stop("timeout", "It took longer than 0.3 s.")


async def test_a_flood_is_cut_off(room: Room) -> None:
    finished, diary = await room.run({"flood": 30_000_000}, limits=Limits(output_bytes=100_000))
    assert finished.stopped == Stop("policy_violation", "It wrote more than 100000 bytes.")
    assert len(diary.text) <= 100_000
    huge = {"raw": "x" * 100}
    finished, _ = await room.run(*[huge] * 100, {"hang": True}, limits=Limits(output_bytes=100))
    assert finished.stopped == Stop("policy_violation", "It sent more than 1600 bytes.")


async def test_an_endless_line_and_requests_without_end_are_cut_off(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, _ = await room.run({"line": 200_000_000}, {"hang": True})
    assert finished.stopped == Stop("policy_violation", "It sent a message of more than 16777216 bytes.")
    monkeypatch.setattr(wire, "MOST_OPEN", 0)
    finished, _ = await room.run({"pester": 3}, {"hang": True})
    assert finished.stopped == Stop("policy_violation", "It sent more than 0 requests without reading an answer.")


async def test_an_agent_that_heeds_nothing_is_killed_with_what_it_left(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "CANCEL_SECONDS", 0.1)
    finished, _ = await room.run(
        {"leave": ["sleep", "300"]},
        {"hang": True},
        deaf=True,
        stubborn=True,
        limits=Limits(silence=0.2),
        graces=replace(QUICK, stdin=0.1),
    )
    assert finished.exit_code == -9
    assert finished.stop_reason is None


async def test_what_a_well_behaved_agent_left_running_is_swept_up(room: Room) -> None:
    finished, _ = await room.run({"leave": ["sleep", "300"]}, {"say": "done"})
    assert (finished.stop_reason, finished.exit_code, finished.left_behind) == ("end_turn", 0, 1)


async def test_cancelling_kills_everything_first(room: Room) -> None:
    diary = Diary()
    running = asyncio.ensure_future(
        room.run({"leave": ["sleep", "300"]}, {"say": "x"}, {"hang": True}, diary=diary, deaf=True, stubborn=True)
    )
    await diary.until(lambda: diary.text)
    pid = diary.pid
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_error_of_the_watcher_ends_the_agent_and_is_raised(room: Room) -> None:
    def halt(event: MaidEvent) -> Stop | None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await room.run({"say": "a"}, {"hang": True}, diary=Diary(halt=halt))
