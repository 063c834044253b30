"""The rows of long-term memory: kept once, put aside, taken back, merged, erased; never another's (C6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection, text

from butler.errors import ButlerError
from butler.memory import remembered
from butler.memory.blocks import MemoryBlocks
from butler.people import Principal
from butler.storage import memories
from butler.storage.database import Database
from butler.storage.memories import Source
from tests.support.parts import MAX, MIA, add_people, add_run, new_database

T = TypeVar("T")
SOURCE = Source("mia", "model", "talk", "run")
HOUSE = Source("butler", memories.MERGED)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = new_database(tmp_path / "butler.db")
    opened.write_now(add_people)
    yield opened
    opened.close()


def keep(database: Database, words: str, importance: int | None = None, person: Principal = MIA) -> remembered.Memory:
    return database.write_now(lambda c: memories.remember(c, person.user_id, words, importance, SOURCE))[0]


def held(database: Database, person: Principal = MIA) -> list[str]:
    return [one.text for one in database.write_now(lambda c: memories.live(c, person.user_id))]


def refused(database: Database, work: Callable[[Connection], T], code: str) -> None:
    with pytest.raises(ButlerError) as refusal:
        database.write_now(work)
    assert refusal.value.code == code


def test_the_most_important_comes_first_and_then_the_newest(database: Database) -> None:
    for words, importance in (("old", 5), ("minor", 1), ("new", 5), ("vital", 10)):
        keep(database, words, importance)
    assert held(database) == ["vital", "new", "old", "minor"]


def test_where_it_comes_from_is_kept(database: Database) -> None:
    one = keep(database, "likes tea")
    assert (one.by, one.via, one.thread_id, one.run_id, one.importance) == ("mia", "model", "talk", "run", 5)


def test_the_same_again_only_changes_the_importance(database: Database) -> None:
    first = keep(database, "likes tea", 3)
    again = keep(database, "Likes  tea.", 8)
    assert (again.memory_id, again.text, again.importance) == (first.memory_id, "likes tea", 8)
    assert keep(database, "likes tea").importance == 8
    assert held(database) == ["likes tea"]
    assert keep(database, "likes tea", person=MAX).memory_id != first.memory_id


def test_what_is_forgotten_comes_back_with_undo(database: Database) -> None:
    one = keep(database, "likes tea")
    gone = database.write_now(lambda c: memories.forget(c, MIA.user_id, one.memory_id.lower()))
    assert gone.forgotten_at and held(database) == []
    assert database.write_now(lambda c: memories.forget(c, MIA.user_id, one.memory_id)) == gone
    [back] = database.write_now(lambda c: memories.undo(c, MIA.user_id, one.memory_id))
    assert back.forgotten_at is None and held(database) == ["likes tea"]
    refused(database, lambda c: memories.undo(c, MIA.user_id, one.memory_id), "invalid_request")


def test_undo_does_not_make_a_second_one_of_the_same(database: Database) -> None:
    one = keep(database, "likes tea")
    database.write_now(lambda c: memories.forget(c, MIA.user_id, one.memory_id))
    keep(database, "likes tea")
    refused(database, lambda c: memories.undo(c, MIA.user_id, one.memory_id), "invalid_request")
    assert held(database) == ["likes tea"]


def test_another_persons_memory_does_not_exist(database: Database) -> None:
    one = keep(database, "likes tea")
    for work in (
        lambda c: memories.get(c, MAX.user_id, one.memory_id),
        lambda c: memories.forget(c, MAX.user_id, one.memory_id),
        lambda c: memories.undo(c, MAX.user_id, one.memory_id),
        lambda c: memories.edit(c, MAX.user_id, one.memory_id, text="x", importance=None),
    ):
        refused(database, work, "not_found")
    assert held(database, MAX) == []
    assert database.write_now(lambda c: memories.listed(c, MAX.user_id, "tea", forgotten=True)) == []
    assert database.write_now(lambda c: memories.erase(c, MAX.user_id)) == 0
    assert held(database) == ["likes tea"]


def test_an_edit_changes_text_and_importance_but_makes_no_doubles(database: Database) -> None:
    one, two = keep(database, "likes tea"), keep(database, "likes wine")
    changed = database.write_now(
        lambda c: memories.edit(c, MIA.user_id, one.memory_id, text="likes mate", importance=9)
    )
    assert (changed.text, changed.importance, changed.created_at) == ("likes mate", 9, one.created_at)
    for words in ("LIKES MATE", " "):
        refused(
            database,
            lambda c, words=words: memories.edit(c, MIA.user_id, two.memory_id, text=words, importance=None),  # type: ignore[misc]
            "invalid_request",
        )
    database.write_now(lambda c: memories.forget(c, MIA.user_id, two.memory_id))
    refused(
        database, lambda c: memories.edit(c, MIA.user_id, two.memory_id, text="x", importance=None), "invalid_request"
    )


def test_no_more_than_the_limit_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST_MEMORIES", 3)
    for words in ("a1", "a2", "a3"):
        keep(database, words)
    refused(database, lambda c: memories.remember(c, MIA.user_id, "a4", None, SOURCE), "invalid_request")
    keep(database, "a3", 9)
    keep(database, "b1", person=MAX)


def test_merging_writes_the_new_one_and_puts_the_old_ones_aside_until_undone(database: Database) -> None:
    parts = [keep(database, "likes tea", 3), keep(database, "likes green tea", 7)]
    merged = database.write_now(lambda c: memories.merge(c, MIA.user_id, parts, "likes tea, green", HOUSE))
    assert merged is not None and merged.importance == 7
    assert held(database) == ["likes tea, green"]
    database.write_now(lambda c: memories.undo(c, MIA.user_id, merged.memory_id))
    assert sorted(held(database)) == ["likes green tea", "likes tea"]


def test_a_merged_memory_comes_apart_also_when_a_part_is_remembered_anew(database: Database) -> None:
    parts = [keep(database, "likes tea"), keep(database, "likes green tea")]
    merged = database.write_now(lambda c: memories.merge(c, MIA.user_id, parts, "likes tea, green", HOUSE))
    assert merged is not None
    anew = keep(database, "likes tea")
    back = database.write_now(lambda c: memories.undo(c, MIA.user_id, merged.memory_id))
    assert {one.memory_id for one in back} == {anew.memory_id, parts[1].memory_id}
    assert sorted(held(database)) == ["likes green tea", "likes tea"]


def test_a_merge_gives_way_to_whoever_changed_a_part_meanwhile(database: Database) -> None:
    parts = [keep(database, "likes tea"), keep(database, "likes green tea")]
    database.write_now(lambda c: memories.forget(c, MIA.user_id, parts[0].memory_id))
    assert database.write_now(lambda c: memories.merge(c, MIA.user_id, parts, "likes tea", SOURCE)) is None
    assert held(database) == ["likes green tea"]


async def test_a_block_is_taken_once_and_stays_the_same_until_erased(database: Database) -> None:
    database.write_now(lambda c: add_run(c, "run", "talk", MIA))
    database.write_now(lambda c: add_run(c, "run2", "later", MIA))
    blocks = MemoryBlocks(database, 32_768)
    keep(database, "likes tea")
    assert await blocks.take("talk", MIA.user_id) is True
    first = await blocks.text("talk", MIA.user_id)
    keep(database, "likes wine")
    assert await blocks.take("talk", MIA.user_id) is True
    assert await blocks.text("talk", MIA.user_id) == first
    assert "wine" not in first and "likes tea" in first
    assert await blocks.take("later", MIA.user_id) is True
    assert "wine" in await blocks.text("later", MIA.user_id)
    assert await blocks.text("talk", MAX.user_id) == ""
    assert await blocks.take("talk", MAX.user_id) is None
    assert database.write_now(lambda c: memories.erase(c, MIA.user_id)) == 2
    assert await blocks.text("talk", MIA.user_id) == ""


async def test_a_person_without_memories_gets_no_block_and_nothing_is_written(database: Database) -> None:
    database.write_now(lambda c: add_run(c, "run", "talk", MIA))
    assert await MemoryBlocks(database, 32_768).take("talk", MIA.user_id) is False
    assert database.write_now(lambda c: c.execute(text("SELECT count(*) FROM memory_blocks")).scalar()) == 0


async def test_a_small_context_gets_a_small_block(database: Database) -> None:
    database.write_now(lambda c: add_run(c, "run", "talk", MIA))
    for number in range(50):
        keep(database, f"fact {number} " + "x" * 100)
    assert await MemoryBlocks(database, 4_096).take("talk", MIA.user_id) is True
    assert len(await MemoryBlocks(database, 4_096).text("talk", MIA.user_id)) <= 1_024


def test_erasing_leaves_no_trace_in_the_file(database: Database, tmp_path: Path) -> None:
    keep(database, "the-word-to-be-gone")
    database.write_now(lambda c: memories.erase(c, MIA.user_id))
    database.write_now(lambda c: c.exec_driver_sql("SELECT 1"))
    with_log = database.path.with_name("butler.db-wal")
    database.close()
    assert b"the-word-to-be-gone" not in database.path.read_bytes()
    assert not with_log.exists() or b"the-word-to-be-gone" not in with_log.read_bytes()


def test_what_was_forgotten_long_ago_is_swept(database: Database) -> None:
    one = keep(database, "likes tea")
    keep(database, "likes wine")
    database.write_now(lambda c: memories.forget(c, MIA.user_id, one.memory_id))
    assert database.write_now(memories.sweep) == 0
    database.write_now(lambda c: c.execute(text("UPDATE memories SET forgotten_at = '2020' WHERE forgotten_at > ''")))
    assert database.write_now(memories.sweep) == 1
    assert held(database) == ["likes wine"]


def test_the_parts_of_a_live_merge_are_never_swept_and_go_some_time_after_it(database: Database) -> None:
    parts = [keep(database, "likes tea"), keep(database, "likes green tea")]
    source = Source("butler", memories.MERGED)
    merged = database.write_now(lambda c: memories.merge(c, MIA.user_id, parts, "likes tea, green tea", source))
    assert merged is not None
    aged = text("UPDATE memories SET forgotten_at = '2020' WHERE forgotten_at > ''")
    database.write_now(lambda c: c.execute(aged))
    assert database.write_now(memories.sweep) == 0
    assert len(database.write_now(lambda c: memories.undo(c, MIA.user_id, merged.memory_id))) == 2
    again = database.write_now(
        lambda c: memories.merge(c, MIA.user_id, memories.live(c, MIA.user_id), "tea, green tea", source)
    )
    assert again is not None
    database.write_now(lambda c: memories.forget(c, MIA.user_id, again.memory_id))
    database.write_now(lambda c: c.execute(aged))
    assert [database.write_now(memories.sweep) for _ in range(3)] == [2, 2, 0]
