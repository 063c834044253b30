"""Which thread a request of an OpenAI client belongs to, and whether Butler has been asked it before (E1).

Such clients send the whole talk each time and no id. A thread follows from the user and the first user message, so each
turn leaves digests here: of what its chat goes by, and of all that the user had said by then. They go with the thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from butler.clock import now, stamp
from butler.storage.chat_tables import client_turns
from butler.storage.tables import runs, threads

UNDELIVERED_SECONDS = 3600
"""For so long an answer that never arrived waits for whoever asks the same again."""
MOST_LOOKED_AT = 200
UNFINISHED = ("queued", "running", "parked")


@dataclass(frozen=True)
class Asked:
    """A request as digests.

    Args:
        chat: what the chat goes by: the thread that is named, else the client's id of it, else its first user message.
        said: of all user messages, in order.
        again: the client says that it repeats a request.
    """

    chat: str
    said: str
    again: bool = False


@dataclass(frozen=True)
class Place:
    """Where a request goes: a new thread (None), a thread, or the run that is its answer already."""

    thread_id: str | None = None
    run_id: str | None = None


def digest(*parts: str) -> str:
    """SHA-256 over parts, none of which can run into the next."""
    whole = hashlib.sha256()
    for part in parts:
        text = part.strip().encode("utf-8", "surrogatepass")
        whole.update(b"%d:" % len(text) + text)
    return whole.hexdigest()


def digest_of_talk(messages: Iterable[str]) -> str:
    """One digest over messages in order."""
    return reduce(digest, messages, "")


def place(connection: Connection, user_id: str, asked: Asked, thread_id: str | None) -> Place:
    """Where a request goes. Whether the thread that it names is the user's is not looked at here."""
    if thread_id is None:
        known = _turns(connection, user_id, client_turns.c.chat == asked.chat, most=1)
        if not known:
            return Place()
        thread_id = known[0].thread_id
    turns = _turns(connection, user_id, client_turns.c.thread_id == thread_id)
    return Place(thread_id, _repeated(turns, asked))


def note(connection: Connection, user_id: str, asked: Asked, *, thread_id: str, run_id: str) -> None:
    """Keep that a run is the answer to `asked`."""
    connection.execute(
        insert(client_turns).values(
            user_id=user_id, thread_id=thread_id, run_id=run_id, chat=asked.chat, said=asked.said, created_at=stamp()
        )
    )  # fmt: skip


def answered(connection: Connection, user_id: str, asked: Asked, run_id: str, *, over: bool) -> None:
    """The answer to `asked` has been sent whole; not `over`: it told what the turn waits for."""
    newest = select(func.max(client_turns.c.seq)).where(
        client_turns.c.user_id == user_id, client_turns.c.run_id == run_id, client_turns.c.said == asked.said
    )
    connection.execute(
        update(client_turns).where(client_turns.c.seq == newest.scalar_subquery()).values(delivered=over)
    )


def _turns(connection: Connection, user_id: str, condition: Any, most: int = MOST_LOOKED_AT) -> Sequence[Row[Any]]:
    """The turns of a user's clients that meet the condition, newest first, without those of deleted threads."""
    query = (
        select(client_turns, runs.c.status)
        .join(runs, runs.c.run_id == client_turns.c.run_id)
        .join(threads, threads.c.thread_id == client_turns.c.thread_id)
        .where(client_turns.c.user_id == user_id, condition, threads.c.turns >= 0)
        .order_by(client_turns.c.seq.desc())
        .limit(most)
    )
    return connection.execute(query).all()


def _repeated(turns: Sequence[Row[Any]], asked: Asked) -> str | None:
    """The run of a thread that this very request began, if its answer is still to come or never arrived.

    A turn that was answered, or that failed, may be wished for once more: that is a new one.
    """
    for turn in turns:
        if turn.said == asked.said and turn.status in UNFINISHED:
            return str(turn.run_id)
    for turn in turns[:1]:  # Of what is over, only what was said last can be asked again.
        missed = turn.status == "done" and (asked.again or not turn.delivered)
        if turn.said == asked.said and missed and turn.created_at > _an_hour_ago():
            return str(turn.run_id)
    return None


def _an_hour_ago() -> str:
    return stamp(now() - timedelta(seconds=UNDELIVERED_SECONDS))
