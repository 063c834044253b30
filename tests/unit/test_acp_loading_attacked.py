"""Loading an earlier session has no effect by itself: history is no wish, and a given-up session is over (D4, D10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from butler.maids.contract import SessionOpened
from config.maid_types import Limits
from tests.support.acp_launch import ALL, Diary, Room, ask

EDIT = {"kind": "edit", "title": "Write a.txt", "rawInput": {"path": "a.txt"}}
REPLAYED = [
    ask(EDIT),
    {"call": ["fs/write_text_file", {"path": "a.txt", "content": "again"}]},
    {"call": ["terminal/create", {"command": "touch", "args": ["b.txt"]}]},
]


@pytest.fixture
def room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Room]:
    yield Room(tmp_path)
    assert caplog.records == []


async def test_what_an_agent_asks_for_while_it_loads_is_neither_put_to_a_person_nor_done(room: Room) -> None:
    finished, diary = await room.run({"say": "on"}, loads=True, replay=REPLAYED, load="session-0", offer=ALL)
    assert (finished.stop_reason, finished.stopped, diary.text) == ("end_turn", None, "on")
    assert diary.requests == [] and diary.tools == []
    assert list(room.tree.iterdir()) == []
    asked, *refused = room.answers()
    assert asked == {"outcome": {"outcome": "cancelled"}}
    assert [one["error"]["code"] for one in refused] == [-32602, -32602]


async def test_a_session_that_was_not_loaded_in_time_can_do_nothing_later(room: Room) -> None:
    late = {"sessionId": "session-0"}
    update = {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Old", "kind": "edit", "status": "completed"}
    finished, diary = await room.run(
        {"call": ["fs/write_text_file", {**late, "path": "a.txt", "content": "again"}]},
        {"ask": {"toolCall": {"toolCallId": "1", **EDIT}, **late, "options": ask(EDIT)["ask"]["options"]}},
        {"notify": ["session/update", {**late, "update": update}]},
        {"say": "new"},
        loads=True, deaf_to="session/load", load="session-0", offer=ALL, limits=Limits(session_ready=1.0),
    )  # fmt: skip
    opened = next(one for one in diary.events if isinstance(one, SessionOpened))
    assert (opened.session_id, opened.loaded, finished.stopped) == ("session-1", False, None)
    assert diary.requests == [] and diary.tools == [] and diary.text == "new"
    assert list(room.tree.iterdir()) == []


async def test_an_agent_that_only_asks_while_it_loads_does_not_wait_for_a_person(room: Room) -> None:
    async def never(_: object) -> str:
        await asyncio.Event().wait()
        return "allow"

    finished, diary = await room.run(
        {"say": "on"}, loads=True, replay=[ask(EDIT)], load="session-0", diary=Diary(answer=never)
    )
    assert (finished.stop_reason, finished.awaits_permission) == ("end_turn", False)
    assert diary.text == "on"
