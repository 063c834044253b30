"""What is swept, what stays, and what the doctor says of sizes (C7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from butler.memory.archive import Archive
from butler.redact import Redactor
from butler.storage import conversations, memories, upkeep
from butler.storage.memories import Source
from service.doctor_sizes import readable, sizes
from tests.support.parts import MIA, add_people, new_database, proposed, ruling


def test_rows_of_actions_that_are_gone_are_swept_and_others_stay(tmp_path: Path) -> None:
    database = new_database(tmp_path / "butler.db")
    [action] = proposed(database, ruling("approve"))
    rows = (
        "INSERT INTO sightings VALUES (:id, 'u-mia', 'http', '2031')",
        "INSERT INTO links VALUES ('link-' || :id, :id, 'u-mia', 'f', '2031', NULL, NULL)",
        "INSERT INTO notifications (subject, kind, user_id, channel, action_id, status, next_at, created_at) "
        "VALUES (:id, 'asked', 'u-mia', 'ntfy', :id, 'queued', '2031', '2031')",
    )
    for statement in rows:
        for action_id in (action.action_id, "gone"):
            database.write_now(lambda c, s=statement, i=action_id: c.execute(text(s), {"id": i}))  # type: ignore[misc]
    assert database.write_now(upkeep.sweep) == 3
    assert database.write_now(upkeep.sweep) == 0
    for table in ("sightings", "links", "notifications"):
        left = database.write_now(lambda c, t=table: c.execute(text(f"SELECT action_id FROM {t}")).scalars().all())  # type: ignore[misc]
        assert left == [action.action_id]
    database.close()


async def test_the_doctor_shows_what_each_part_takes(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    assert list(sizes(path, tmp_path / "checkpoints.db")) == []
    database = new_database(path)
    database.write_now(add_people)
    thread = database.write_now(lambda c: conversations.create_thread(c, MIA, "t"))
    lease = conversations.Lease("me", 0.0)
    database.write_now(lambda c: conversations.accept(c, thread, MIA, "x" * 5000, lease))
    database.write_now(lambda c: memories.remember(c, MIA.user_id, "likes tea", None, Source("mia", "cli")))
    [behind, _] = list(sizes(path, tmp_path / "checkpoints.db"))
    assert "(1 lines to go)" in behind.detail
    await Archive(database, Redactor([])).catch_up(1)
    whole, average = list(sizes(path, tmp_path / "checkpoints.db"))
    assert "transcript 1 lines, 4.9 KB; search index" in whole.detail
    assert "to go" not in whole.detail and "1 memories, 9 B" in whole.detail
    assert average.detail.startswith("1 threads of ")
    database.close()


def test_a_file_that_is_no_database_is_left_to_the_other_check(tmp_path: Path) -> None:
    path = tmp_path / "butler.db"
    path.write_text("nonsense" * 100)
    assert list(sizes(path, path)) == []


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (20_480, "20 KB"), (5 << 20, "5.0 MB"), (3 << 30, "3.0 GB")],
)
def test_sizes_are_readable(size: int, shown: str) -> None:
    assert readable(size) == shown
