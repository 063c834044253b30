"""Streams of a run: each has one `run` first and one `end` last, whenever it joins (http-api, *Streaming*)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import events
from service.events import EPOCH_SIZE, MOST_LOGS, RunLog, RunLogs, to_json

Event = tuple[int, str, Any]


def parse(text: bytes) -> list[Event]:
    """The events of a piece of a stream; comments are left out."""
    found: list[Event] = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


async def collect(log: RunLog, position: int = 0) -> list[Event]:
    """A whole stream."""
    return parse(b"".join([piece async for piece in log.follow(position)]))


def follow(log: RunLog, position: int = 0) -> asyncio.Task[list[Event]]:
    return asyncio.create_task(collect(log, position))


async def breathe() -> None:
    """Let every follower take what there is."""
    for _ in range(5):
        await asyncio.sleep(0)


def names(stream: list[Event]) -> list[str]:
    return [event for _, event, _ in stream]


def outcome(status: str) -> dict[str, str]:
    return {"status": status}


def check(stream: list[Event]) -> None:
    assert names(stream).count("run") == 1 and names(stream)[0] == "run"
    assert names(stream).count("end") == 1 and names(stream)[-1] == "end"
    assert all(one < other for one, other in pairwise(seq for seq, _, _ in stream))


async def within(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, 30)


async def test_a_stream_begins_with_run_and_ends_with_end() -> None:
    log = RunLog("r")
    log.begin("t")
    early = follow(log)
    await breathe()
    log.emit("token", {"text": "a"})
    log.emit("token", {"text": "b"})
    middle = follow(log)
    await breathe()
    log.end(outcome("done"))
    for stream in (await within(early), await within(middle), await within(follow(log))):
        check(stream)
        assert stream == [
            (1, "run", {"thread_id": "t", "run_id": "r"}), (2, "token", {"text": "a"}), (3, "token", {"text": "b"}),
            (4, "end", {"status": "done"}),
        ]  # fmt: skip


async def test_a_park_ends_the_streams_of_its_stretch_and_a_resume_has_its_own() -> None:
    log = RunLog("r")
    log.begin("t")
    first = follow(log)
    log.emit("approval", {"code": "ABCDE"})
    log.end(outcome("parked"))
    parked = await within(first)
    check(parked)
    assert parked[-1][2] == outcome("parked")
    position = log.position
    log.begin("t")
    second = follow(log, position)
    log.emit("token", {"text": "x"})
    log.end(outcome("done"))
    stream = await within(second)
    check(stream)
    assert names(stream) == ["run", "token", "end"] and stream[-1][2] == outcome("done")
    whole = await within(follow(log))
    check(whole)
    assert names(whole) == ["run", "approval", "token", "end"]


async def test_a_slow_consumer_that_missed_a_park_gets_one_run_and_one_end() -> None:
    log = RunLog("r")
    log.begin("t")
    stream = log.follow(0)
    pieces = [await within(anext(stream))]
    log.emit("approval", {})
    log.end(outcome("parked"))
    log.begin("t")
    log.emit("token", {"text": "x"})
    log.end(outcome("parked"))
    log.begin("t")
    log.emit("token", {"text": "y"})
    log.end(outcome("done"))
    pieces += [piece async for piece in stream]
    events_seen = parse(b"".join(pieces))
    check(events_seen)
    assert names(events_seen) == ["run", "approval", "token", "token", "end"]


async def test_a_late_joiner_gets_what_it_missed() -> None:
    log = RunLog("r")
    log.begin("t")
    for number in range(5):
        log.emit("token", {"text": str(number)})
    late = follow(log, log.index_after(3))
    await breathe()
    log.end(outcome("done"))
    assert [(seq, name) for seq, name, _ in await within(late)] == [
        (4, "token"),
        (5, "token"),
        (6, "token"),
        (7, "end"),
    ]


async def test_a_run_that_is_told_again_for_one_stream_is_news_to_that_stream_alone() -> None:
    log = RunLog("r")
    log.begin("t")
    first = follow(log)
    log.emit("approval", {})
    await breathe()
    position = log.position
    log.emit("run", {"thread_id": "t", "run_id": "r"})  # a decision came before the run had parked
    second = follow(log, position)
    log.emit("token", {"text": "x"})
    log.end(outcome("done"))
    for task, expected in ((first, ["run", "approval", "token", "end"]), (second, ["run", "token", "end"])):
        stream = await within(task)
        check(stream)
        assert names(stream) == expected


async def test_whoever_goes_away_disturbs_nobody() -> None:
    log = RunLog("r")
    log.begin("t")
    leaving, staying = follow(log), follow(log)
    await breathe()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    log.emit("token", {"text": "a"})
    log.end(outcome("done"))
    check(await within(staying))
    assert not log.busy


async def test_quiet_streams_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.01)
    log = RunLog("r")
    log.begin("t")
    stream = log.follow(0)
    pieces = [await within(anext(stream)) for _ in range(3)]
    assert pieces[1:] == [b": keep-alive\n\n"] * 2
    log.end(outcome("done"))
    assert names(parse(b"".join([*pieces, *[piece async for piece in stream]]))) == ["run", "end"]


async def test_when_the_server_stops_streams_end_without_an_outcome() -> None:
    log = RunLog("r")
    log.begin("t")
    waiting = follow(log)
    await breathe()
    log.close()
    assert names(await within(waiting)) == ["run"]
    assert names(await within(follow(log))) == ["run"]


async def test_a_stream_of_a_stopping_server_still_gets_an_end_that_is_there() -> None:
    log = RunLog("r")
    log.begin("t")
    log.end(outcome("done"))
    log.close()
    check(await within(follow(log)))


async def test_waiting_for_the_outcome_means_the_next_end() -> None:
    log = RunLog("r")
    log.begin("t")
    first = asyncio.create_task(log.ended(0))
    await breathe()
    assert not first.done()
    log.end(outcome("parked"))
    assert await within(first) == outcome("parked")
    position = log.position
    assert await within(log.ended(0)) == outcome("parked")
    log.begin("t")
    resumed = asyncio.create_task(log.ended(position))
    everything = asyncio.create_task(log.ended(0))
    await breathe()
    assert not resumed.done() and not everything.done()
    log.end(outcome("done"))
    assert await within(resumed) == await within(everything) == outcome("done")


async def test_waiting_for_an_outcome_ends_with_the_server_and_with_what_there_is() -> None:
    log = RunLog("r")
    log.begin("t")
    waiting = asyncio.create_task(log.ended(0))
    await breathe()
    log.close()
    assert await within(waiting) is None
    assert await within(log.ended(0)) is None
    log.end(outcome("done"))  # the turn was nearly done when the server stopped
    assert await within(log.ended(0)) == outcome("done")


async def test_a_new_process_counts_on_from_the_next_epoch() -> None:
    old, new = RunLog("r", 0), RunLog("r", 1)
    for log in (old, new):
        log.begin("t")
        log.end(outcome("parked"))
    assert [seq for seq, _, _ in await within(follow(new))] == [EPOCH_SIZE + 1, EPOCH_SIZE + 2]
    for last_seen in (1, 2):  # what a client saw of the old process hides nothing of the new one
        check(await within(follow(new, new.index_after(last_seen))))


def test_the_position_after_an_event() -> None:
    log = RunLog("r", 2)
    log.begin("t")
    log.emit("token", {})
    log.emit("token", {})
    base = 2 * EPOCH_SIZE
    seen = (0, 1, base, base + 1, base + 2, base + 3, base + 99)
    assert [log.index_after(last) for last in seen] == [0, 0, 0, 1, 2, 3, 3]


def test_what_utf8_cant_carry_is_escaped() -> None:
    assert json.loads(to_json({"text": "\ud800 ü", "n": 10**30})) == {"text": "\ud800 ü", "n": 10**30}


SCRIPT = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["join", "look", "none"])), min_size=1, max_size=6
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(SCRIPT, st.data())
def test_however_stretches_and_streams_interleave_each_has_one_run_and_one_end(
    script: list[tuple[int, str]], data: st.DataObject
) -> None:
    async def play() -> None:
        log = RunLog("r")
        streams: list[asyncio.Task[list[Event]]] = []
        slow: list[tuple[AsyncIterator[bytes], list[bytes]]] = []

        async def maybe_join(position: int) -> None:
            if data.draw(st.booleans()):
                streams.append(follow(log, position))
            if data.draw(st.booleans()):
                slow.append((log.follow(position), []))
            if data.draw(st.booleans()):
                await breathe()

        for stretch, (count, habit) in enumerate(script):
            position = log.position
            log.begin("t")
            await maybe_join(position)
            for number in range(count):
                log.emit("token", {"text": f"{stretch}.{number}"})
                if habit == "join":
                    await maybe_join(0)
                elif habit == "look":
                    for stream, pieces in slow:
                        pieces.append(await anext(stream, b""))
            log.end(outcome("done" if stretch == len(script) - 1 else "parked"))
            if data.draw(st.booleans()):
                await breathe()
        for task in streams:
            check(await within(task))
        for stream, pieces in slow:
            pieces += [piece async for piece in stream]
            check(parse(b"".join(pieces)))

    asyncio.run(play())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.data())
def test_a_stream_broken_off_anywhere_and_joined_again_tells_everything_once(count: int, data: st.DataObject) -> None:
    async def play() -> None:
        log = RunLog("r")
        log.begin("t")
        for number in range(count):
            log.emit("token", {"text": str(number)})
        log.end(outcome("done"))
        whole = await within(follow(log))
        cut = data.draw(st.integers(0, len(whole) - 1))
        seen = whole[:cut]
        rest = await within(follow(log, log.index_after(seen[-1][0] if seen else 0)))
        assert seen + rest == whole

    asyncio.run(play())


def test_the_logs_keep_what_is_needed_and_let_the_oldest_go() -> None:
    logs = RunLogs()
    running = logs.open("running")
    running.begin("t")
    for number in range(MOST_LOGS + 10):
        log = logs.open(f"r{number}")
        log.begin("t")
        log.end(outcome("done"))
    assert logs.get("running") is running
    assert logs.get("r0") is None and logs.get(f"r{MOST_LOGS + 9}") is not None
    assert len(logs.positions()) <= MOST_LOGS + 1
    assert logs.open("running") is running
    logs.drop("running")
    assert logs.get("running") is None


async def test_whoever_has_seen_the_end_and_joins_again_hears_it_again() -> None:
    log = RunLog("r")
    log.begin("t")
    log.end(outcome("done"))
    for last_seen in (2, 3, 10**9):
        assert await within(follow(log, log.index_after(last_seen))) == [(2, "end", outcome("done"))]
