"""Checkpoints: the house's saver stores and reads what LangGraph's own does, and pruning loses no open turn (C7)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from graph.persistence import ThreadedSaver, open_checkpoints
from tests.support.headless import open_brain, says
from tests.support.parts import quick_directory


def rows(path: Path) -> list[list[tuple[Any, ...]]]:
    """Everything that a checkpoint file holds."""
    with closing(sqlite3.connect(path)) as connection:
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4, 5, 6").fetchall()
                for table in ("checkpoints", "writes")]  # fmt: skip


def count(path: Path, thread_id: str) -> int:
    return sum(row[0] == thread_id for row in rows(path)[0])


@asynccontextmanager
async def both(home: Path) -> AsyncIterator[tuple[AsyncSqliteSaver, ThreadedSaver]]:
    async with (
        AsyncSqliteSaver.from_conn_string(str(home / "plain.db")) as plain,
        open_checkpoints(home / "threaded.db") as threaded,
    ):
        await plain.setup()
        yield plain, threaded


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CHANNELS = st.sampled_from(["messages", "results", "__interrupt__", "__error__", "__resume__", "branch:to:act"])
WRITES = st.lists(st.tuples(CHANNELS, JSON), max_size=4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]), st.dictionaries(st.text(min_size=1, max_size=4), JSON, max_size=3),
        st.lists(st.tuples(st.sampled_from(["task-a", "task-b"]), WRITES), max_size=3),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_the_same_calls_store_the_same_rows_and_read_back_the_same(steps: list[Any]) -> None:
    async def play(home: Path) -> None:
        async with both(home) as savers:
            heads: dict[str, RunnableConfig] = {}
            for number, (thread, values, writes) in enumerate(steps):
                before = heads.get(thread, {"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
                checkpoint: Checkpoint = empty_checkpoint() | {"channel_values": values}
                about: CheckpointMetadata = {"source": "loop", "step": number, "parents": {}}
                after = [await saver.aput(before, checkpoint, about, {}) for saver in savers]
                assert after[0] == after[1]
                heads[thread] = after[0]
                for task, written in writes:
                    for saver in savers:
                        await saver.aput_writes(after[0], written, task, "path")
            assert rows(home / "plain.db") == rows(home / "threaded.db")
            newest: RunnableConfig = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
            for head in (*heads.values(), newest):
                plain, threaded = [await saver.aget_tuple(head) for saver in savers]
                assert plain == threaded
            await savers[1].aprune(["one"])
            left = {thread: count(home / "threaded.db", thread) for thread in ("one", "two")}
            asked = {thread: sum(step[0] == thread for step in steps) for thread in left}
            assert left == {"one": min(asked["one"], 1), "two": asked["two"]}
            for head in heads.values():
                assert await savers[1].aget_tuple(head) is not None

    with quick_directory() as home:
        asyncio.run(play(Path(home)))


async def test_pruning_a_parked_thread_loses_nothing_of_its_turn(tmp_path: Path) -> None:
    lines = [says("hello"), says("", ("gated", {"text": "a"}), ("gated", {"text": "b"})), says("done"), says("later")]
    async with open_brain(tmp_path, *lines, on_disk=True) as brain:
        saver = brain.graph.checkpointer
        assert isinstance(saver, ThreadedSaver)
        await brain.say("hi")
        await brain.say("write")
        path = tmp_path / "checkpoints.db"
        assert count(path, "thread") > 5
        await saver.aprune(["thread"])
        assert count(path, "thread") == 1
        for left in (1, 0):
            await brain.decide((await brain.pending())[0], "approve")
            state = await brain.go()
            assert len(state.get("__interrupt__", [])) == left
            await saver.aprune(["thread", "unknown"])
        assert state["ending"]["reply"] == "done" and sorted(brain.journal.lines) == ["a", "b"]
        assert (await brain.say("and?"))["ending"]["reply"] == "later"
        said = [message["content"] for message in brain.model.heard[-1] if message["role"] == "user"]
        assert said == ["hi", "write", "and?"]


async def test_pruning_while_a_turn_runs_loses_nothing_of_it(tmp_path: Path) -> None:
    lines = [says("", ("free", {"text": str(number)})) for number in range(8)]
    async with open_brain(tmp_path, *lines, says("done"), on_disk=True) as brain:
        saver = brain.graph.checkpointer
        assert isinstance(saver, ThreadedSaver)
        turn = asyncio.create_task(brain.say("go"))
        while not turn.done():
            await saver.aprune(["thread"])
        assert (await turn)["ending"]["reply"] == "done"
        assert brain.journal.lines == [str(number) for number in range(8)]
        await saver.aprune(["thread"])
        assert count(tmp_path / "checkpoints.db", "thread") == 1


async def test_many_threads_at_once_keep_their_own_talk(tmp_path: Path) -> None:
    async with open_brain(tmp_path, *[says("fine")] * 40, on_disk=True) as brain:
        for turn in ("first", "second"):
            await asyncio.gather(*(brain.say(f"{turn} {n}", thread_id=f"t{n}") for n in range(20)))
        for number in range(20):
            values = (await brain.graph.aget_state(brain.config(f"t{number}"))).values
            said = [message["content"] for message in values["messages"] if message["role"] == "user"]
            assert said == [f"first {number}", f"second {number}"]


async def test_a_deleted_thread_leaves_nothing_and_begins_anew(tmp_path: Path) -> None:
    lines = [says("", ("gated", {"text": "a"})), says("fine"), says("anew")]
    async with open_brain(tmp_path, *lines, on_disk=True) as brain:
        saver = brain.graph.checkpointer
        assert isinstance(saver, ThreadedSaver)
        await brain.say("write", thread_id="gone")
        await brain.say("hi", thread_id="kept")
        await saver.adelete_thread("gone")
        assert set(await saver.threads()) == {"kept"}
        assert {row[0] for table in rows(tmp_path / "checkpoints.db") for row in table} == {"kept"}
        assert (await brain.say("hi", thread_id="gone"))["ending"]["reply"] == "anew"


async def test_a_foreign_lock_on_the_file_is_waited_for(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("fine"), on_disk=True) as brain:
        with closing(sqlite3.connect(tmp_path / "checkpoints.db", isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            turn = asyncio.create_task(brain.say("hi"))
            await asyncio.wait([turn], timeout=0.2)
            assert not turn.done()
            foreign.execute("ROLLBACK")
        assert (await asyncio.wait_for(turn, 20))["ending"]["reply"] == "fine"


@pytest.mark.parametrize("strategy", ["delete_all", "keep_all"])
async def test_no_other_way_of_pruning_is_pretended(tmp_path: Path, strategy: str) -> None:
    async with open_checkpoints(tmp_path / "checkpoints.db") as saver:
        await saver.ping()
        with pytest.raises(NotImplementedError, match=strategy):
            await saver.aprune(["thread"], strategy=strategy)
