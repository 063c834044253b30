"""Which thread a request of an OpenAI client belongs to, and whether Butler has been asked it before (E1).

Such clients send the whole talk each time and no id. So each turn leaves digests here: of all that the user had said by
then, of the last message, and of the answer. They go with the thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
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
        chat: what the chat goes by: the client's id of it, else its first user message.
        said: for each user message the digest over it and all before it, in order.
        last: of the last user message; `before_last` of the one before it.
        answer: of the assistant's text right before the last user message.
        again: the client says that it repeats a request.
    """

    chat: str
    said: tuple[str, ...]
    last: str
    before_last: str | None = None
    answer: str | None = None
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


def chain(messages: Iterable[str]) -> tuple[str, ...]:
    """One digest for each message, over it and all before it."""
    found: list[str] = []
    for message in messages:
        found.append(digest(found[-1] if found else "", message))
    return tuple(found)


def place(connection: Connection, user_id: str, asked: Asked, thread_id: str | None) -> Place:
    """Where a request goes. Whether the thread that it names is the user's is not looked at here."""
    if thread_id is None:
        return _found(connection, user_id, asked)
    turns = _turns(connection, user_id, client_turns.c.thread_id == thread_id)
    return _repeated(turns, asked) or Place(thread_id)


def _found(connection: Connection, user_id: str, asked: Asked) -> Place:
    turns = _turns(connection, user_id, client_turns.c.chat == asked.chat)
    if (repeated := _repeated(turns, asked)) is not None:
        return repeated
    if not turns:
        # A long talk whose beginning the client has dropped: what was said last, and Butler's answer, tell it.
        turns = _answered(connection, user_id, asked)
    return Place(turns[0].thread_id) if turns else Place()


def _answered(connection: Connection, user_id: str, asked: Asked) -> Sequence[Row[Any]]:
    """The turns of any chat that said what was said last, and were answered alike."""
    if asked.answer is None or asked.before_last is None:
        return []
    alike = (client_turns.c.answer == asked.answer) & (client_turns.c.last == asked.before_last)
    return _turns(connection, user_id, alike)


def note(connection: Connection, user_id: str, asked: Asked, *, thread_id: str, run_id: str) -> None:
    """Keep that a run is the answer to `asked`."""
    connection.execute(
        insert(client_turns).values(
            user_id=user_id, thread_id=thread_id, run_id=run_id, chat=asked.chat, said=asked.said[-1],
            last=asked.last, created_at=stamp(),
        )
    )  # fmt: skip


def answered(connection: Connection, user_id: str, asked: Asked, run_id: str, answer: str, *, over: bool) -> None:
    """The answer to `asked` has been sent whole; not `over`: it told what the turn waits for."""
    newest = select(func.max(client_turns.c.seq)).where(
        client_turns.c.user_id == user_id, client_turns.c.run_id == run_id, client_turns.c.said == asked.said[-1]
    )
    connection.execute(
        update(client_turns)
        .where(client_turns.c.seq == newest.scalar_subquery())
        .values(delivered=over, answer=digest(answer))
    )


def _turns(connection: Connection, user_id: str, condition: Any) -> Sequence[Row[Any]]:
    """The turns of a user's clients that meet the condition, newest first, without those of deleted threads."""
    query = (
        select(client_turns, runs.c.status)
        .join(runs, runs.c.run_id == client_turns.c.run_id)
        .join(threads, threads.c.thread_id == client_turns.c.thread_id)
        .where(client_turns.c.user_id == user_id, condition, threads.c.turns >= 0)
        .order_by(client_turns.c.seq.desc())
        .limit(MOST_LOOKED_AT)
    )
    return connection.execute(query).all()


def _repeated(turns: Sequence[Row[Any]], asked: Asked) -> Place | None:
    """The turn that this very request began, if its answer is still to come or never arrived.

    A turn that was answered, or that failed, may be wished for once more: that is a new one.
    """
    newest: set[str] = set()
    for turn in turns:
        if turn.thread_id in newest:
            continue  # Only what was said last can be asked again.
        newest.add(turn.thread_id)
        if turn.said != asked.said[-1]:
            continue
        missed = turn.status == "done" and (asked.again or not turn.delivered)
        if turn.status in UNFINISHED or (missed and turn.created_at > _an_hour_ago()):
            return Place(turn.thread_id, turn.run_id)
    return None


def _an_hour_ago() -> str:
    return stamp(now() - timedelta(seconds=UNDELIVERED_SECONDS))
