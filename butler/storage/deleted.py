"""Deleted threads: out of everybody's sight at once, their lines removed a few at a time (B4, C7).

Taking a line out of the search index costs about as much as putting it in. All lines of a long thread in one
transaction would hold up whatever else is to be written for seconds.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.sql.functions import char_length

from butler.storage.tables import DELETED, memory_blocks, messages, runs, threads

MOST_LINES = 128
MOST_CHARACTERS = 128_000
"""What one transaction removes at most, one line always."""
MOST_RUNS = 512


def delete_thread(connection: Connection, thread_id: str) -> bool:
    """Take a thread out of sight with what waits in it, and remove its first lines; ledger and audit rows stay.

    Returns: whether anything is left for `remove_more`.
    """
    connection.execute(
        update(threads).where(threads.c.thread_id == thread_id).values(turns=DELETED, title="", status="idle")
    )
    connection.execute(
        delete(runs).where(runs.c.thread_id == thread_id, runs.c.status.in_(("queued", "running", "parked")))
    )
    connection.execute(delete(memory_blocks).where(memory_blocks.c.thread_id == thread_id))
    return remove_more(connection, thread_id)


def remove_more(connection: Connection, thread_id: str) -> bool:
    """Remove a few more lines and runs of a deleted thread, at last the thread itself; whether anything is left."""
    lines = connection.execute(
        select(messages.c.seq, char_length(messages.c.text))
        .where(messages.c.thread_id == thread_id)
        .order_by(messages.c.turn, messages.c.seq)
        .limit(MOST_LINES)
    ).all()
    taken, characters = list[int](), 0
    for seq, length in lines:
        taken.append(seq)
        characters += length
        if characters >= MOST_CHARACTERS:
            break
    connection.execute(delete(messages).where(messages.c.seq.in_(taken)))
    some = select(runs.c.run_id).where(runs.c.thread_id == thread_id).limit(MOST_RUNS)
    ended = connection.execute(delete(runs).where(runs.c.run_id.in_(some))).rowcount
    if len(lines) == MOST_LINES or len(taken) < len(lines) or ended == MOST_RUNS:
        return True
    connection.execute(delete(threads).where(threads.c.thread_id == thread_id, threads.c.turns < 0))
    return False


def sweep(connection: Connection) -> int:
    """Go on with a thread whose removal was cut short; gives 0 when there is none."""
    thread_id = connection.execute(select(threads.c.thread_id).where(threads.c.turns < 0).limit(1)).scalar()
    if thread_id is None:
        return 0
    remove_more(connection, thread_id)
    return 1
