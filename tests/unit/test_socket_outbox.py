"""What waits for a slow reader: nothing is lost or overtaken, and it stays bounded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service.socket.outbox import Outbox


def token(stream: str, text: str) -> dict[str, Any]:
    return {"type": "CHAT_STREAM", "stream_id": stream, "payload": text}


async def taken(outbox: Outbox) -> list[dict[str, Any]]:
    """Everything that waits."""
    frames: list[dict[str, Any]] = []
    while True:
        coming = asyncio.ensure_future(outbox.next())
        await asyncio.sleep(0)
        if not coming.done():
            coming.cancel()
            return frames
        frames.append(json.loads(coming.result()))


async def test_text_of_a_stream_that_waits_is_put_together() -> None:
    outbox = Outbox()
    for frame in (token("a", "1"), token("b", "x"), token("a", "2"), {"type": "CHAT"}, token("a", "3")):
        outbox.put(frame)
    frames = await taken(outbox)
    assert [(one["type"], one.get("stream_id"), one.get("payload")) for one in frames] == [
        ("CHAT_STREAM", "a", "12"), ("CHAT_STREAM", "b", "x"), ("CHAT", None, None), ("CHAT_STREAM", "a", "3"),
    ]  # fmt: skip
    assert [one["seq"] for one in frames] == [1, 2, 3, 4]


async def test_a_frame_that_was_handed_in_is_not_changed() -> None:
    first, outbox, other = token("a", "1"), Outbox(), Outbox()
    outbox.put(first)
    other.put(first)
    outbox.put(token("a", "2"))
    assert first["payload"] == "1"
    assert (await taken(other))[0]["payload"] == "1"


async def test_what_is_being_sent_grows_no_more() -> None:
    outbox = Outbox()
    outbox.put(token("a", "1"))
    assert json.loads(await outbox.next())["payload"] == "1"
    outbox.put(token("a", "2"))
    assert json.loads(await outbox.next())["payload"] == "2"


async def test_a_reader_that_does_not_read_overflows_it() -> None:
    outbox = Outbox(most_bytes=10_000)
    for _ in range(100):
        outbox.put({"type": "CHAT", "payload": "x" * 500})
    assert outbox.full.is_set()
    before = len(await taken(outbox))
    outbox.put({"type": "CHAT", "payload": "y"})
    assert await taken(outbox) == []
    assert before <= 20


async def test_one_large_frame_alone_is_no_overflow() -> None:
    outbox = Outbox(most_bytes=1000)
    outbox.put({"type": "AUTH_REQUEST", "payload": "x" * 5000})
    assert not outbox.full.is_set()
    outbox.put({"type": "CHAT"})
    assert outbox.full.is_set()


async def test_who_can_wait_goes_on_once_there_is_room() -> None:
    outbox = Outbox(most_frames=8)
    for _ in range(4):
        outbox.put({"type": "CHAT"})
    waiting = asyncio.ensure_future(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    for _ in range(2):
        await outbox.next()
    await asyncio.wait_for(waiting, 30)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["token", "control", "take"])), max_size=40))
def test_no_text_is_lost_doubled_or_overtaken(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        outbox = Outbox()
        sent: list[tuple[str, int]] = []
        got: list[dict[str, Any]] = []
        for number, (stream, step) in enumerate(steps):
            match step:
                case "token":
                    outbox.put(token(stream, f"{number},"))
                    sent.append((stream, number))
                case "control":
                    outbox.put({"type": "CHAT", "stream_id": stream, "payload": f"{number},"})
                    sent.append((stream, number))
                case _:
                    got += [json.loads(await outbox.next())] if len(got) < len(sent) and outbox._items else []
        got += await taken(outbox)
        for stream in "abc":
            text = "".join(one["payload"] for one in got if one["stream_id"] == stream)
            assert text == "".join(f"{number}," for name, number in sent if name == stream)
        assert [one["seq"] for one in got] == list(range(1, len(got) + 1))

    asyncio.run(play())


async def test_progress_is_no_text_and_whoever_is_far_behind_is_spared_it() -> None:
    outbox = Outbox(most_frames=8)
    progress = {"type": "CHAT_STREAM", "stream_id": "a", "payload": "", "event": "maid", "data": {"phase": "started"}}
    for frame in (token("a", "1"), progress, token("a", "2"), progress):
        outbox.put(frame)
    assert [(one["payload"], one.get("event")) for one in await taken(outbox)] == [
        ("1", None), ("", "maid"), ("2", None), ("", "maid")
    ]  # fmt: skip
    for number in range(30):
        outbox.put({**progress, "data": {"number": number}})
        outbox.put(token("a", f"{number},"))
    assert not outbox.full.is_set()
    frames = await taken(outbox)
    assert "".join(one["payload"] for one in frames) == "".join(f"{number}," for number in range(30))
    assert 0 < len([one for one in frames if "event" in one]) < 8
