"""What a thread's prompt says of its person: taken once, the same to the byte from then on, gone when erased (C6)."""

from __future__ import annotations

from functools import partial

from butler.memory.remembered import BLOCK_CHARACTERS
from butler.storage import memories
from butler.storage.database import Database

CONTEXT_SHARE = 4
"""A block has at most one character for so many tokens of the context, so that a small one isn't full of it."""


class MemoryBlocks:
    """Takes blocks and gives them back; only ever to the person they are about."""

    def __init__(self, database: Database, context_limit: int) -> None:
        self._database = database
        self._most = min(BLOCK_CHARACTERS, context_limit // CONTEXT_SHARE)

    async def take(self, thread_id: str, user_id: str) -> bool | None:
        """Fix the block of a thread; False when nothing is remembered, None when the thread is another's."""
        text = await self._database.read(
            partial(memories.new_block, thread_id=thread_id, user_id=user_id, most=self._most)
        )
        if text:
            await self._database.write(partial(memories.keep_block, thread_id=thread_id, user_id=user_id, text=text))
        return None if text is None else bool(text)

    async def text(self, thread_id: str, user_id: str) -> str:
        """The block of that person's thread; empty when it was erased, or when somebody else speaks in it."""
        return await self._database.read(partial(memories.block_of, thread_id=thread_id, user_id=user_id))
