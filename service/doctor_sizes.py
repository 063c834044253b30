"""`butler doctor`: how much is on disk, and how much of it each thread has (C7, E5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from service.doctor import Finding

NAME = "sizes"
_COUNTS = {
    "threads": "SELECT count(*) FROM threads",
    "lines": "SELECT count(*) FROM messages",
    "text": "SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM messages",
    "index": "SELECT coalesce(sum(length(block)), 0) FROM message_words_data",
    "behind": "SELECT count(*) FROM messages WHERE seq > (SELECT upto FROM search_state)",
    "memories": "SELECT count(*) FROM memories WHERE forgotten_at IS NULL",
    "memory_text": "SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM memories",
    "approvals": "SELECT count(*) FROM actions",
    "audit": "SELECT count(*) FROM audit",
}


def sizes(database: Path, checkpoints: Path) -> Iterator[Finding]:
    """What the files and their parts come to; a database that can't be read is `doctor.database`'s to tell."""
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=10)) as connection:
            counted = {name: int(connection.execute(query).fetchone()[0]) for name, query in _COUNTS.items()}
    except sqlite3.Error:
        return
    whole, heads = _on_disk(database), _on_disk(checkpoints)
    yield Finding(
        NAME, "good",
        f"database {readable(whole)}, checkpoints {readable(heads)}; transcript {counted['lines']:,} lines, "
        f"{readable(counted['text'])}; search index {readable(counted['index'])}"
        + (f" ({counted['behind']:,} lines to go)" if counted["behind"] else "")
        + f"; {counted['memories']:,} memories, {readable(counted['memory_text'])}; "
        f"{counted['approvals']:,} calls in the ledger, {counted['audit']:,} audit rows",
    )  # fmt: skip
    if threads := counted["threads"]:
        yield Finding(NAME, "good", f"{threads:,} threads of {readable((whole + heads) // threads)} on average")


def readable(size: int) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("B", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def _on_disk(path: Path) -> int:
    return sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())
