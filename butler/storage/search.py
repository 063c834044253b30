"""Full text over the transcript: an SQLite FTS5 index that lags behind and is caught up before it is asked (C5).

The index holds words and places, no texts: what a search shows is read from `messages`, so it can never show what
is deleted. Triggers take a deleted line out of the index in the transaction that deletes it. Everything that is
particular to SQLite is in this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from butler.errors import ButlerError
from butler.words import excerpt, query_words, spaced

INDEX_VERSION = 1
"""Of `spaced` and the tokenizer; an index of another version is made anew."""
BATCH_LINES = 64
BATCH_CHARACTERS = 64_000
"""What one transaction indexes at most, one line always: the writer is free again after some milliseconds."""
MOST_FOUND = 50
EXCERPT_LENGTH = 300

_BEHIND = text("SELECT seq, text FROM messages WHERE seq > (SELECT upto FROM search_state) ORDER BY seq LIMIT :lines")
# Results of `search_history` and `recall`, and the answers to the commands, only repeat what stands elsewhere.
_FIND = """
    SELECT m.message_id, m.thread_id, m.run_id, m.role, m.text, m.created_at, t.title,
           json_extract(m.extra, '$.tool') AS tool
    FROM message_words JOIN messages m ON m.seq = message_words.rowid JOIN threads t ON t.thread_id = m.thread_id
    LEFT JOIN runs r ON r.run_id = m.run_id
    WHERE message_words MATCH :wanted AND t.owner_id = :owner AND t.turns >= 0 AND m.run_id != :without
      AND coalesce(json_extract(m.extra, '$.tool'), '') NOT IN ('search_history', 'recall')
      AND NOT coalesce(
        r.message || ' ' GLOB '/search[^a-zA-Z0-9_-]*' OR r.message || ' ' GLOB '/search_history[^a-zA-Z0-9_-]*'
        OR r.message || ' ' GLOB '/memory[^a-zA-Z0-9_-]*' OR r.message || ' ' GLOB '/recall[^a-zA-Z0-9_-]*', 0)
    ORDER BY {order} LIMIT :most
    """
_BEST = text(_FIND.format(order="m.thread_id = :first DESC, bm25(message_words), m.seq DESC"))
# SQLite reads the index backwards for this and stops once it has enough.
_NEWEST = text(_FIND.format(order="message_words.rowid DESC"))
_ONE = text(
    """
    SELECT m.message_id, m.thread_id, m.run_id, m.role, m.text, m.created_at, t.title,
           json_extract(m.extra, '$.tool') AS tool
    FROM messages m JOIN threads t ON t.thread_id = m.thread_id
    WHERE m.message_id = :wanted AND t.owner_id = :owner AND t.turns >= 0
    """
)


@dataclass(frozen=True)
class Found:
    """A line of the transcript that was found; `text` is an excerpt, or a part of the line when it was asked for."""

    message_id: str
    thread_id: str
    title: str
    run_id: str
    role: str
    tool: str | None
    text: str
    created_at: str


def prepare(connection: Connection) -> None:
    """Empty an index that another version made, so that catching up makes it anew."""
    if connection.execute(text("SELECT version FROM search_state")).scalar() == INDEX_VERSION:
        return
    connection.exec_driver_sql("INSERT INTO message_words (message_words) VALUES ('delete-all')")
    connection.execute(text("UPDATE search_state SET upto = 0, version = :version"), {"version": INDEX_VERSION})


def is_behind(connection: Connection) -> bool:
    """Whether any line is not in the index yet."""
    query = text("SELECT max(seq) > (SELECT upto FROM search_state) FROM messages")
    return bool(connection.execute(query).scalar())


def lag(connection: Connection) -> int:
    """How many lines are not in the index yet."""
    query = text("SELECT count(*) FROM messages WHERE seq > (SELECT upto FROM search_state)")
    return int(connection.execute(query).scalar_one())


def catch_up(connection: Connection) -> bool:
    """Index the next few lines; False when there are no more."""
    rows, characters = [], 0
    for row in connection.execute(_BEHIND, {"lines": BATCH_LINES}):
        rows.append((row.seq, spaced(row.text)))
        characters += len(row.text)
        if characters >= BATCH_CHARACTERS:
            break
    if not rows:
        return False
    connection.exec_driver_sql("INSERT INTO message_words (rowid, words) VALUES (?, ?)", rows)
    connection.execute(text("UPDATE search_state SET upto = :upto"), {"upto": rows[-1][0]})
    return len(rows) == BATCH_LINES or characters >= BATCH_CHARACTERS


def find(
    connection: Connection,
    owner_id: str,
    query: str,
    limit: int,
    *,
    first: str = "",
    without: str = "",
    newest: bool = False,
    mask: Callable[[str], str] = str,
) -> list[Found]:
    """Lines of that person's own threads with all the words, else with any of them, the best ones first.

    Args:
        mask: hides secrets; it gets whole texts, since a part of a secret would not be known as one.
        first: the thread whose lines come before all others.
        newest: give the newest lines in place of the best ones, which takes less time.
        without: a run whose lines are left out: the one that asks.

    Raises:
        ButlerError: ``invalid_request`` when the query has no word in it.
    """
    words = query_words(query)
    if not words:
        raise ButlerError("invalid_request", "There is no word to search for; name one or more.")
    given = {"owner": owner_id, "without": without, "most": min(limit, MOST_FOUND)}
    if not newest:
        given["first"] = first
    rows: list[Row[Any]] = []
    for glue in (" AND ", " OR ")[: len(words)]:
        rows = list(
            connection.execute(_NEWEST if newest else _BEST, given | {"wanted": glue.join(map(_phrase, words))})
        )
        if rows:
            break
    return [_found(row, excerpt(mask(row.text), words, EXCERPT_LENGTH), mask) for row in rows]


def read_line(
    connection: Connection,
    owner_id: str,
    message_id: str,
    start: int,
    length: int,
    mask: Callable[[str], str] = str,
) -> tuple[Found, int]:
    """A part of one line of that person's own threads, and how long the line is.

    Raises:
        ButlerError: ``not_found`` also when it is another person's.
    """
    row = connection.execute(_ONE, {"wanted": message_id, "owner": owner_id}).first()
    if row is None:
        raise ButlerError("not_found", f"There is no message {message_id!r} in your threads.")
    whole = mask(row.text)
    return _found(row, whole[start : start + length], mask), len(whole)


def _phrase(word: str) -> str:
    """A word as an FTS5 string, in which nothing has a meaning; its last part may go on in the text."""
    inside = spaced(word).replace('"', " ").replace("\0", " ")
    return f'"{inside}"' + ("*" if word[-1].isascii() and word[-1].isalnum() and len(word) > 2 else "")


def _found(row: Row[Any], shown: str, mask: Callable[[str], str]) -> Found:
    return Found(
        row.message_id, row.thread_id, mask(row.title), row.run_id, row.role, row.tool, shown, row.created_at
    )  # fmt: skip
