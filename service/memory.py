"""A person's long-term memory and archive as every face offers them (C5, C6)."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from sqlalchemy import Connection

from butler.errors import ButlerError
from butler.memory.archive import Archive
from butler.memory.remembered import Memory
from butler.people import Principal
from butler.redact import Redactor
from butler.storage import audit, memories
from butler.storage.database import Database
from butler.storage.memories import Source
from butler.storage.search import Found
from butler.types import Json

MOST_TOLD = 20


class MemoryService:
    """What one person may see and change: only ever their own. Raises ButlerError for what can't be done."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self.archive = Archive(database, redactor)
        self._database = database
        self._redactor = redactor

    async def listed(self, person: Principal, query: str = "", *, forgotten: bool = False) -> list[Memory]:
        """What is remembered, the most important first, or by how close it is to a query."""
        return await self._database.read(
            partial(memories.listed, user_id=person.user_id, query=query, forgotten=forgotten)
        )

    async def one(self, person: Principal, memory_id: str) -> Memory:
        """One memory."""
        return await self._database.read(partial(memories.get, user_id=person.user_id, memory_id=memory_id))

    async def add(self, person: Principal, text: str, importance: int | None, via: str) -> tuple[Memory, bool]:
        """Remember a text; secrets are masked. Returns the memory and whether it is new."""
        kept = self._redactor.text(text)
        source = Source(person.name, via)
        return await self._database.write(
            lambda connection: memories.remember(connection, person.user_id, kept, importance, source)
        )

    async def edit(self, person: Principal, memory_id: str, text: str | None, importance: int | None) -> Memory:
        """Change a memory."""
        kept = self._redactor.text(text) if text is not None else None
        return await self._database.write(
            lambda connection: memories.edit(connection, person.user_id, memory_id, text=kept, importance=importance)
        )

    async def forget(self, person: Principal, memory_id: str) -> Memory:
        """Put a memory aside."""
        return await self._database.write(partial(memories.forget, user_id=person.user_id, memory_id=memory_id))

    async def undo(self, person: Principal, memory_id: str) -> list[Memory]:
        """Take a memory back, or a merged one apart."""
        return await self._database.write(partial(memories.undo, user_id=person.user_id, memory_id=memory_id))

    async def erase(self, person: Principal, via: str) -> int:
        """Remove everything for good, also from the prompts of the person's threads; gives how many."""
        return await self._database.write(partial(erase_all, person=person, via=via))

    async def told_search(self, person: Principal, query: str, thread_id: str) -> str:
        """The answer to /search."""
        searched = await self.archive.search(person.user_id, query, MOST_TOLD, first=thread_id)
        lines = [_line(one) for one in searched.found]
        if searched.stopped:
            lines.append(searched.stopped)
        elif not lines:
            lines.append("Nothing was found. Try other or fewer words.")
        if searched.behind:
            lines.append(f"{searched.behind} lines are not indexed yet; ask again in a moment.")
        return "\n".join(lines)

    async def told_memories(self, person: Principal, words: str) -> str:
        """The answer to /memory."""
        first, _, rest = words.partition(" ")
        if first == "undo":
            return await self.told_undo(person, rest)
        found = await self.listed(person, words)
        if not found:
            what = f"that has to do with {words!r}" if words else "yet; /remember TEXT keeps something"
            return f"Nothing is remembered of you {what}."
        lines = [f"- **{one.memory_id}** ({one.importance}) {_quoted(one.text)}" for one in found[:MOST_TOLD]]
        if len(found) > MOST_TOLD:
            lines.append(f"{len(found) - MOST_TOLD} more: /memory WORDS finds them, and the page /memory shows all.")
        return "\n".join([*lines, "\n`/forget ID` puts one aside, `/undo ID` takes it back."])

    async def told_undo(self, person: Principal, memory_id: str) -> str:
        """The answer to /undo."""
        if not memory_id.strip():
            raise ButlerError("invalid_request", "Usage: /undo ID. The page /memory shows what was forgotten.")
        back = await self.undo(person, memory_id)
        return "\n".join(f"Remembered again: **{one.memory_id}** {_quoted(one.text)}" for one in back)


def erase_all(connection: Connection, person: Principal, via: str) -> int:
    """Erase a person's memories and say so in the audit, without a word of them."""
    count = memories.erase(connection, person.user_id)
    audit.record(connection, "memory_erased", actor=person.name, via=via, memories=count)
    return count


def memory_item(memory: Memory) -> Json:
    """A memory as JSON."""
    return asdict(memory)


def found_item(found: Found) -> Json:
    """A line that was found as JSON."""
    return {
        "message_id": found.message_id, "thread_id": found.thread_id, "thread_title": found.title,
        "run_id": found.run_id, "role": found.role, "tool": found.tool, "text": found.text,
        "created_at": found.created_at, "trusted": found.role != "tool",
    }  # fmt: skip


def _line(found: Found) -> str:
    who = f"tool {found.tool}" if found.tool else found.role
    return f"- {found.created_at[:16].replace('T', ' ')} {who}, in “{found.title}”: {_quoted(found.text)}"


def _quoted(text: str) -> str:
    """Text on one line; what looks like Markdown in it stays plain."""
    flat = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|" else sign for sign in flat)
