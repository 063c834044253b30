"""A long thread costs the same bytes per turn at its end as at its beginning, all told (C7)."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.client import Client
from tests.support.server import MakeButler

TURNS = 500
WORDS = (
    "harbour",
    "ticket",
    "lantern",
    "cellar",
    "invoice",
    "walnut",
    "garden",
    "letter",
    "railway",
    "copper",
    "winter",
)
MOST_BYTES = 3 * 1024 * 1024


def used(path: Path) -> int:
    """The bytes that hold something; free pages are used again."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def text_bytes(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT sum(length(CAST(text AS BLOB))) FROM messages").fetchone()[0])


def test_a_thread_of_500_turns_stays_small_and_grows_evenly(make_butler: MakeButler) -> None:
    butler = make_butler()
    butler.start()
    client: Client = butler.client()
    data = next(butler.home.rglob("butler.db")).parent
    sizes: dict[int, int] = {}
    thread: str | None = None
    for number in range(1, TURNS + 1):
        words = " ".join(random.Random(number).choices(WORDS, k=140))
        outcome = client.chat(f"Turn {number}: {words} [[tokens 200]]", thread)
        assert outcome["status"] == "done"
        thread = outcome["thread_id"]
        if number in (50, 150, TURNS - 100, TURNS):
            # A search brings the index up to the newest line, so that its bytes count too.
            assert client.get("/search", query="harbour")["not_indexed"] == 0
            sizes[number] = used(data / "butler.db")
    butler.stop()
    early, late = sizes[150] - sizes[50], sizes[TURNS] - sizes[TURNS - 100]
    assert late <= 1.2 * early, sizes
    assert used(data / "checkpoints.db") < 256 * 1024
    on_disk = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    assert on_disk - text_bytes(data / "butler.db") < MOST_BYTES
