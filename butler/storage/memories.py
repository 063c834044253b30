"""The rows of long-term memory: each belongs to one person, and no statement here reaches another's (C6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, literal, select, update

from butler.clock import now, stamp, stamp_in
from butler.errors import ButlerError
from butler.ids import new_code
from butler.memory.remembered import MOST_MEMORIES, USUAL_IMPORTANCE, Memory, block, checked_text, digest_of, ranked
from butler.storage.tables import memories, memory_blocks, threads

ID_LENGTH = 8
MERGED = "consolidation"
"""How a memory came about that the house made of others."""
KEPT_FORGOTTEN_SECONDS = 90 * 24 * 3600
_SHOWN = [memories.c[field.name] for field in fields(Memory)]
_LIVE = (
    select(*_SHOWN)
    .where(memories.c.forgotten_at.is_(None))
    .order_by(memories.c.importance.desc(), memories.c.updated_at.desc(), memories.c.memory_id)
)


@dataclass(frozen=True)
class Source:
    """Where a memory comes from: who said so, by which face, in which thread and run if in any."""

    by: str
    via: str
    thread_id: str | None = None
    run_id: str | None = None


def live(connection: Connection, user_id: str) -> list[Memory]:
    """What is remembered of a person, the most important first."""
    return [_memory(row) for row in connection.execute(_LIVE.where(memories.c.user_id == user_id))]


def listed(connection: Connection, user_id: str, query: str = "", *, forgotten: bool = False) -> list[Memory]:
    """A person's memories as lists show them; with a query only those that have to do with it."""
    found = live(connection, user_id)
    if forgotten:
        gone = select(*_SHOWN).where(memories.c.user_id == user_id, memories.c.forgotten_at.is_not(None))
        found += [_memory(row) for row in connection.execute(gone.order_by(memories.c.forgotten_at.desc()))]
    return ranked(found, query) if query.strip() else found


def get(connection: Connection, user_id: str, memory_id: str) -> Memory:
    """One memory of that person. Raises ButlerError ``not_found`` also when it is another's."""
    row = connection.execute(
        select(*_SHOWN).where(memories.c.user_id == user_id, memories.c.memory_id == memory_id.strip().upper())
    ).first()
    if row is None:
        raise ButlerError("not_found", f"There is no memory {memory_id!r}.")
    return _memory(row)


def remember(
    connection: Connection, user_id: str, text: str, importance: int | None, source: Source
) -> tuple[Memory, bool]:
    """Keep a text; one that is there already only gets the new importance.

    Returns: the memory, and whether it is new.
    Raises: ButlerError ``invalid_request`` for an unusable text or when there are too many.
    """
    kept = checked_text(text)
    same = _same(connection, user_id, kept)
    if same is not None:
        wanted = same.importance if importance is None else importance
        return _change(connection, user_id, same.memory_id, importance=wanted, updated_at=stamp()), False
    count = connection.execute(
        select(func.count())
        .select_from(memories)
        .where(memories.c.user_id == user_id, memories.c.forgotten_at.is_(None))
    ).scalar_one()
    if count >= MOST_MEMORIES:
        raise ButlerError("invalid_request", f"{MOST_MEMORIES:,} memories are the most; forget some first.")
    return _add(connection, user_id, kept, USUAL_IMPORTANCE if importance is None else importance, source), True


def edit(connection: Connection, user_id: str, memory_id: str, *, text: str | None, importance: int | None) -> Memory:
    """Change what is remembered. Raises ButlerError when it is forgotten, or the same as another one."""
    memory = get(connection, user_id, memory_id)
    if memory.forgotten_at is not None:
        raise ButlerError("invalid_request", f"{memory.memory_id} is forgotten; undo that first.")
    values: dict[str, Any] = {"updated_at": stamp()}
    if text is not None:
        kept = checked_text(text)
        same = _same(connection, user_id, kept)
        if same is not None and same.memory_id != memory.memory_id:
            raise ButlerError("invalid_request", f"That is remembered already, as {same.memory_id}.")
        values |= {"text": kept, "digest": digest_of(kept)}
    if importance is not None:
        values["importance"] = importance
    return _change(connection, user_id, memory.memory_id, **values)


def forget(connection: Connection, user_id: str, memory_id: str) -> Memory:
    """Put a memory aside; it can be taken back for a while. A second time changes nothing."""
    memory = get(connection, user_id, memory_id)
    if memory.forgotten_at is not None:
        return memory
    return _change(connection, user_id, memory.memory_id, forgotten_at=stamp())


def undo(connection: Connection, user_id: str, memory_id: str) -> list[Memory]:
    """Take a forgotten memory back, or take apart one that was merged of others; these are never merged again.

    Returns: the memories that are there again; a part that is remembered anew meanwhile is there already.
    Raises: ButlerError ``invalid_request`` when there is nothing to undo or the same is remembered anew.
    """
    memory = get(connection, user_id, memory_id)
    parts = _merged_into(connection, user_id, memory.memory_id)
    if memory.forgotten_at is not None:
        return [_revive(connection, user_id, memory.memory_id)]
    if not parts:
        raise ButlerError("invalid_request", f"{memory.memory_id} is not forgotten; there is nothing to undo.")
    if memory.via == MERGED:  # Of doubles one was kept, and stays.
        _change(connection, user_id, memory.memory_id, forgotten_at=stamp())
    return [_same(connection, user_id, part.text) or _revive(connection, user_id, part.memory_id) for part in parts]


def merge(connection: Connection, user_id: str, parts: Sequence[Memory], text: str, source: Source) -> Memory | None:
    """Put one memory in the place of several: it is written before they are put aside, all in one transaction.

    Returns: the new one; None when a part has been changed or forgotten meanwhile, or the text is there already.
    """
    current = [_row_of(connection, user_id, part.memory_id) for part in parts]
    if current != list(parts) or any(part.forgotten_at is not None for part in parts):
        return None
    same = _same(connection, user_id, text)
    importance = max(part.importance for part in parts)
    if same is None:
        merged = _add(connection, user_id, checked_text(text), importance, source)
    elif any(part.memory_id == same.memory_id for part in parts):
        merged = _change(connection, user_id, same.memory_id, importance=importance)
    else:
        return None
    for part in parts:
        if part.memory_id != merged.memory_id:
            _change(connection, user_id, part.memory_id, forgotten_at=stamp(), merged_into=merged.memory_id)
    return merged


def erase(connection: Connection, user_id: str) -> int:
    """Remove everything that is remembered of a person for good, from the prompts of their threads too."""
    # Freed pages keep their content otherwise.
    connection.exec_driver_sql("PRAGMA secure_delete=ON")
    try:
        connection.execute(delete(memory_blocks).where(memory_blocks.c.user_id == user_id))
        return connection.execute(delete(memories).where(memories.c.user_id == user_id)).rowcount
    finally:
        connection.exec_driver_sql("PRAGMA secure_delete=OFF")


def new_block(connection: Connection, thread_id: str, user_id: str, most: int) -> str | None:
    """What a thread's prompt would say of its person now; None when the thread is not that person's."""
    owner = connection.execute(select(threads.c.owner_id).where(threads.c.thread_id == thread_id)).scalar()
    return block(live(connection, user_id), most) if owner == user_id else None


def keep_block(connection: Connection, thread_id: str, user_id: str, text: str) -> None:
    """Fix what a thread's prompt says of its person; the first time counts, and nothing is kept of a deleted thread."""
    of_thread = select(threads.c.thread_id, literal(user_id), literal(text), literal(stamp())).where(
        threads.c.thread_id == thread_id, threads.c.turns >= 0
    )
    connection.execute(
        insert(memory_blocks)
        .prefix_with("OR IGNORE", dialect="sqlite")
        .from_select(["thread_id", "user_id", "text", "taken_at"], of_thread)
    )


def block_of(connection: Connection, thread_id: str, user_id: str) -> str:
    """What the prompt of that person's thread says; empty when it is another's, nothing, or erased."""
    query = select(memory_blocks.c.text).where(
        memory_blocks.c.thread_id == thread_id, memory_blocks.c.user_id == user_id
    )
    return connection.execute(query).scalar() or ""


def sweep(connection: Connection) -> int:
    """Remove for good what was forgotten long ago; gives how many.

    The parts of a merged memory stay for as long as it does: undo takes it apart.
    """
    old = stamp_in(-KEPT_FORGOTTEN_SECONDS)
    merged = memories.alias()
    in_use = select(merged.c.memory_id).where(merged.c.memory_id == memories.c.merged_into).exists()
    return connection.execute(delete(memories).where(memories.c.forgotten_at < old, ~in_use)).rowcount


def crowded(connection: Connection, characters: int) -> list[str]:
    """The people whose memories together are longer than that."""
    query = (
        select(memories.c.user_id)
        .where(memories.c.forgotten_at.is_(None))
        .group_by(memories.c.user_id)
        .having(func.sum(func.length(memories.c.text)) > characters)
    )
    return list(connection.execute(query).scalars())


def _add(connection: Connection, user_id: str, text: str, importance: int, source: Source) -> Memory:
    moment = stamp(now())
    row = connection.execute(
        insert(memories)
        .values(
            memory_id=new_code(ID_LENGTH), user_id=user_id, text=text, digest=digest_of(text), importance=importance,
            created_at=moment, updated_at=moment, by=source.by, via=source.via, thread_id=source.thread_id,
            run_id=source.run_id,
        )
        .returning(*_SHOWN)
    ).one()  # fmt: skip
    return _memory(row)


def _change(connection: Connection, user_id: str, memory_id: str, **values: Any) -> Memory:
    row = connection.execute(
        update(memories)
        .where(memories.c.user_id == user_id, memories.c.memory_id == memory_id)
        .values(**values)
        .returning(*_SHOWN)
    ).one()
    return _memory(row)


def _revive(connection: Connection, user_id: str, memory_id: str) -> Memory:
    memory = get(connection, user_id, memory_id)
    same = _same(connection, user_id, memory.text)
    if same is not None and same.memory_id != memory_id:
        raise ButlerError("invalid_request", f"The same is remembered again, as {same.memory_id}.")
    return _change(connection, user_id, memory_id, forgotten_at=None)


def _same(connection: Connection, user_id: str, text: str) -> Memory | None:
    row = connection.execute(
        select(*_SHOWN).where(
            memories.c.user_id == user_id, memories.c.digest == digest_of(text), memories.c.forgotten_at.is_(None)
        )
    ).first()
    return _memory(row) if row else None


def _row_of(connection: Connection, user_id: str, memory_id: str) -> Memory | None:
    row = connection.execute(
        select(*_SHOWN).where(memories.c.user_id == user_id, memories.c.memory_id == memory_id)
    ).first()
    return _memory(row) if row else None


def _merged_into(connection: Connection, user_id: str, memory_id: str) -> list[Memory]:
    query = select(*_SHOWN).where(
        memories.c.user_id == user_id, memories.c.merged_into == memory_id, memories.c.forgotten_at.is_not(None)
    )
    return [_memory(row) for row in connection.execute(query)]


def _memory(row: Row[Any]) -> Memory:
    return Memory(**row._mapping)
