"""One connection inside one process: a reader that never reads ends alone, faults of our own get a number."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from butler.errors import ButlerError
from butler.people import Principal
from service.http.security import RateLimit
from service.socket.door import Guest
from service.socket.frames import Inbound
from service.socket.hub import Hub
from service.socket.session import SLOW, Session
from tests.support.parts import ADMIN, BOT


class Wire:
    """Stands where the WebSocket stands; `stuck` takes nothing more."""

    def __init__(self, *raw: str | None, stuck: bool = False) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for text in raw:
            self.incoming.put_nowait({"type": "websocket.receive", "text": text})
        self.sent: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None
        self.stuck = stuck
        self.taken = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        return await self.incoming.get()

    async def send_text(self, text: str) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        self.sent.append(json.loads(text))
        self.taken.set()

    async def close(self, code: int, reason: str) -> None:
        self.closed = code, reason

    def go(self) -> None:
        self.incoming.put_nowait({"type": "websocket.disconnect"})


class Desk:
    """Keeps the frames; the first may fail."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.frames: list[Inbound] = []
        self.fault = fault
        self.ended = False

    async def begin(self) -> None:
        return

    async def take(self, frame: Inbound) -> None:
        self.frames.append(frame)
        if self.fault is not None:
            raise self.fault

    async def end(self) -> None:
        self.ended = True


def session(wire: Wire, person: Principal = ADMIN) -> tuple[Session, list[Principal]]:
    """A session, and who the doorkeeper says it is: empty for nobody any more."""
    now = [person]

    async def who(_token: str) -> Principal:
        if not now:
            raise ButlerError("unauthorized", "The token has ended.")
        return now[0]

    hub = SimpleNamespace(
        service=SimpleNamespace(), limit=RateLimit(100, 1000), doorkeeper=SimpleNamespace(who=who, forget_all=list)
    )  # fmt: skip
    return Session(cast(Hub, hub), cast(Any, wire), Guest(person, "token")), now


async def test_a_reader_that_never_reads_is_let_go_with_a_reason() -> None:
    wire, desk = Wire(stuck=True), Desk()
    one, _ = session(wire)
    running = asyncio.create_task(one.run(desk))
    await asyncio.sleep(0)
    for _ in range(10):
        one.send({"type": "AUTH_REQUEST", "payload": "x" * 1_000_000})
    await asyncio.wait_for(running, 30)
    assert wire.closed is not None and wire.closed[0] == SLOW and "slow" in wire.closed[1]
    assert desk.ended


async def test_a_fault_of_our_own_is_an_error_with_a_number_and_the_talk_goes_on() -> None:
    wire, desk = Wire('{"type": "CHAT", "payload": "x"}'), Desk(RuntimeError("secret inside"))
    one, _ = session(wire)
    running = asyncio.create_task(one.run(desk))
    await asyncio.wait_for(wire.taken.wait(), 30)
    assert (wire.sent[0]["code"], wire.sent[0]["status"]) == ("internal", 500)
    assert wire.sent[0]["incident"] in wire.sent[0]["detail"] and "secret" not in str(wire.sent)
    assert not running.done()
    wire.go()
    await asyncio.wait_for(running, 30)


async def test_a_token_that_has_ended_carries_no_frame_out() -> None:
    wire, desk = Wire('{"type": "CHAT", "payload": "x"}'), Desk()
    one, now = session(wire)
    now.clear()
    await asyncio.wait_for(one.run(desk), 30)
    assert desk.frames == []
    assert wire.sent[0]["code"] == "unauthorized" and wire.closed == (1008, "unauthorized")


async def test_more_frames_than_may_come_in_a_short_time_are_not_taken() -> None:
    frame = '{"type": "CHAT", "payload": "x"}'
    wire, desk = Wire(frame, frame, frame), Desk()
    one, _ = session(wire)
    one.hub.limit = RateLimit(0.001, 2)
    running = asyncio.create_task(one.run(desk))
    await asyncio.wait_for(wire.taken.wait(), 30)
    assert len(desk.frames) == 2 and [sent["code"] for sent in wire.sent] == ["rate_limited"]
    wire.go()
    await asyncio.wait_for(running, 30)


async def test_who_has_become_an_agent_has_to_come_again() -> None:
    wire, desk = Wire('{"type": "CHAT", "payload": "x"}'), Desk()
    one, now = session(wire)
    now[:] = [Principal(ADMIN.user_id, ADMIN.name, BOT.role)]
    await asyncio.wait_for(one.run(desk), 30)
    assert desk.frames == [] and wire.closed == (1008, "unauthorized")


async def test_who_is_no_admin_any_more_has_to_come_again() -> None:
    wire, desk = Wire('{"type": "CHAT", "payload": "x"}'), Desk()
    one, now = session(wire)
    now[:] = [Principal(ADMIN.user_id, ADMIN.name, "member")]
    await asyncio.wait_for(one.run(desk), 30)
    assert desk.frames == [] and wire.closed == (1008, "unauthorized")


async def test_a_binary_frame_is_refused() -> None:
    wire, desk = Wire(None), Desk()
    one, _ = session(wire)
    running = asyncio.create_task(one.run(desk))
    await asyncio.wait_for(wire.taken.wait(), 30)
    assert wire.sent[0]["code"] == "invalid_request"
    wire.go()
    await asyncio.wait_for(running, 30)
    assert desk.frames == []
