"""What an agent asks leave for, and what it is answered (D10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.maids.acp.permissions import Option, response_to
from butler.maids.acp.updates import kind_of
from butler.maids.contract import PermissionAnswer, PermissionRequest
from config.maid_types import Limits
from tests.support.acp_launch import ALL, OPTIONS, Diary, Json, Room, ask


@pytest.fixture
def room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Room]:
    yield Room(tmp_path)
    assert caplog.records == []


CANCELLED = {"outcome": {"outcome": "cancelled"}}
WRITE = {"title": "write · x", "kind": "other", "rawInput": {"path": "a/b.txt", "content": "x"}}


@given(
    options=st.lists(st.builds(Option, st.text(), st.sampled_from([str(one["kind"]) for one in OPTIONS]))),
    answer=st.sampled_from(["allow", "reject", "cancel"]),
)
def test_only_an_option_for_once_is_ever_chosen(options: list[Option], answer: PermissionAnswer) -> None:
    outcome = response_to(answer, options).outcome
    if outcome.outcome == "selected":
        assert Option(outcome.option_id, f"{answer}_once") in options
    else:
        assert answer == "cancel" or f"{answer}_once" not in {option.kind for option in options}


@pytest.mark.parametrize(("answer", "option"), [("allow", "yes-1"), ("reject", "no-1")])
async def test_a_verdict_is_sent_back_as_the_id_of_the_option_of_that_kind(
    room: Room, answer: PermissionAnswer, option: str
) -> None:
    finished, diary = await room.run(ask(WRITE), {"say": "on"}, diary=Diary(answer))
    assert room.answers() == [{"outcome": {"outcome": "selected", "optionId": option}}]
    assert (finished.stop_reason, diary.text) == ("end_turn", "on")
    assert diary.requests == [
        PermissionRequest(
            "call-1",
            "edit",
            "write · x",
            None,
            (room.tree / "a/b.txt",),
            (),
            {"path": "a/b.txt", "content": "x"},
        )
    ]
    assert [use.call_id for use in diary.tools] == ["call-1"]


async def test_where_a_yes_could_only_be_for_good_nobody_is_asked(room: Room) -> None:
    standing = [one for one in OPTIONS if str(one["kind"]).endswith("always")]
    no = [one for one in OPTIONS if one["kind"] != "allow_once"]
    unknown = [{"optionId": "new", "name": "New", "kind": "allow_for_a_week"}]
    _, diary = await room.run(ask(WRITE, standing), ask(WRITE, no), ask(WRITE, unknown), ask(WRITE, []))
    rejected = {"outcome": {"outcome": "selected", "optionId": "no-1"}}
    assert room.answers() == [CANCELLED, rejected, CANCELLED, CANCELLED]
    assert diary.requests == []


async def test_what_is_asked_is_read_from_all_that_was_said_of_the_call_and_not_from_its_title(room: Room) -> None:
    (room.tree / "link").symlink_to("/etc")
    known = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call-1",
        "kind": "read",
        "locations": [{"path": "inside.txt"}, {"path": "link/passwd"}, {"path": "~/.ssh/id"}],
        "rawInput": {"command": "git", "args": ["push", "--force"], "file_path": "file:///etc/host%73"},
    }
    _, diary = await room.run({"update": known}, ask({"title": "look at a harmless file", "kind": "of tomorrow"}))
    (request,) = diary.requests
    outside = (Path("/etc/passwd"), room.home / ".ssh/id", Path("/etc/hosts"))
    assert (request.kind, request.command) == ("execute", ("git", "push", "--force"))
    assert request.paths == (room.tree / "inside.txt", *outside)
    assert request.outside == outside


@pytest.mark.parametrize(
    ("said", "raw", "kind"),
    [
        ("read", {"path": "a"}, "read"),
        ("read", {"Command": "x", "command": ["rm", "a"]}, "execute"),
        ("fetch", {"cmd": "curl x"}, "execute"),
        ("", {"filePath": "a", "new_string": "b"}, "edit"),
        ("search", {"path": "a", "old_str": "b"}, "edit"),
        ("think", {"content": "b"}, "think"),
        ("delete", {"path": "a", "content": ""}, "delete"),
        ("", {}, "other"),
    ],
)
def test_the_kind_is_what_a_call_does(said: str, raw: Json, kind: str) -> None:
    assert kind_of(said, raw) == kind
    assert kind_of(said, raw, diffs=True) == ("edit" if kind in ("read", "think", "other") else kind)


async def test_an_unanswered_permission_ends_the_attempt_cleanly_and_says_so(room: Room) -> None:
    finished, diary = await room.run(ask(WRITE), {"write": {"a.txt": "went on"}}, {"say": "on"}, diary=Diary("cancel"))
    assert finished.awaits_permission
    assert (finished.stopped, finished.stop_reason, finished.exit_code) == (None, "cancelled", 0)
    assert not (room.tree / "a.txt").exists()
    assert diary.text == ""
    received = [said.get("method") or said.get("result") for said in room.received()]
    assert received[-2:] == ["session/cancel", CANCELLED]


async def test_two_open_permissions_are_both_cancelled_when_one_is_not_answered(room: Room) -> None:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        if request.call_id == "second":
            return "cancel"
        await asyncio.Event().wait()
        return "allow"

    other = {"toolCall": {"toolCallId": "second", "title": "b"}, "options": OPTIONS}
    message = {"jsonrpc": "2.0", "id": "direct", "method": "session/request_permission"}
    raw = json.dumps({**message, "params": {"sessionId": "session-1", **other}})
    finished, _ = await room.run({"raw": raw}, ask(WRITE), diary=Diary(answer))
    assert finished.awaits_permission
    assert room.answers() == [CANCELLED, CANCELLED]


async def test_silence_does_not_count_while_a_person_thinks(room: Room) -> None:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        await asyncio.sleep(0.3)
        return "allow"

    finished, _ = await room.run(ask(WRITE), diary=Diary(answer), limits=Limits(silence=0.2))
    assert (finished.stop_reason, finished.stopped) == ("end_turn", None)


async def test_a_wall_clock_that_runs_out_meanwhile_cancels_the_question(room: Room) -> None:
    withdrawn = asyncio.Event()

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return "allow"

    finished, _ = await room.run(ask(WRITE), diary=Diary(answer), timeout=2.0)
    assert finished.stopped is not None and finished.stopped.failure_class == "timeout"
    assert withdrawn.is_set()
    assert room.answers() == [CANCELLED]


async def test_an_error_while_ruling_ends_the_attempt_and_is_raised(room: Room) -> None:
    async def answer(request: PermissionRequest) -> PermissionAnswer:
        raise OSError("ledger gone")

    with pytest.raises(OSError, match="ledger gone"):
        await room.run(ask(WRITE), diary=Diary(answer))
    assert room.answers() == [CANCELLED]


async def test_a_command_that_was_allowed_runs_in_a_terminal_once_without_another_question(room: Room) -> None:
    shell = {"title": "shell", "kind": "other", "rawInput": {"command": "echo $((6*7)); echo err >&2"}}
    create = {"call": ["terminal/create", {"command": "echo $((6*7)); echo err >&2"}]}
    wait = {"call": ["terminal/wait_for_exit", {"terminalId": "{terminal}"}]}
    output = {"call": ["terminal/output", {"terminalId": "{terminal}"}]}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}
    content = [{"type": "terminal", "terminalId": "terminal-1"}]
    finished, diary = await room.run(
        ask(shell), create, wait, output, {"update": {**done, "content": content}}, create, offer=ALL
    )
    assert finished.stop_reason == "end_turn"
    _, made, ended, said, again = room.answers()
    assert (made, ended) == ({"terminalId": "terminal-1"}, {"exitCode": 0})
    assert sorted(said["output"].split()) == ["42", "err"]
    assert said["exitStatus"] == {"exitCode": 0}
    assert again == {"terminalId": "terminal-2"}
    assert [(one.call_id, one.kind, one.command) for one in diary.requests] == [
        ("call-1", "execute", "echo $((6*7)); echo err >&2"),
        ("terminal-2", "execute", "echo $((6*7)); echo err >&2"),
    ]
    assert sorted(diary.tools[-1].output.split()) == ["42", "err"]
