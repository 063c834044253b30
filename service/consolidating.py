"""Consolidation in the background: only while nobody talks, one group at a time, undone like any forgetting (C6)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from butler.memory.consolidation import (
    BUDGET_CHARACTERS,
    Merger,
    doubles,
    merge_request,
    part_of_round,
    related,
    what_is_wrong,
)
from butler.memory.remembered import Memory
from butler.redact import Redactor
from butler.storage import memories
from butler.storage.database import Database
from butler.storage.memories import Source
from butler.types import CutText

log = structlog.get_logger("butler.consolidation")

PAUSE_SECONDS = 600.0
BACK_OFF_SECONDS = 3600.0
LOOK_SECONDS = 0.25
ANSWER_TOKENS = 900
MOST_TRIED = 10_000
SOURCE = Source("butler", memories.MERGED)


class Consolidator:
    """Merges the memories of people who have more of them than the budget; without a model only doubles."""

    def __init__(
        self,
        database: Database,
        model: Merger | None,
        redactor: Redactor,
        *,
        timeout: float,
        busy: Callable[[], bool],
        budget: int = BUDGET_CHARACTERS,
    ) -> None:
        """`timeout` in seconds bounds one merge; `busy` says whether anybody's turn is running."""
        self._database = database
        self._model = model
        self._redactor = redactor
        self._timeout = timeout
        self._busy = busy
        self._budget = budget
        self._quiet_until = 0.0
        self._rounds: Counter[str] = Counter()
        self._tried: set[frozenset[str]] = set()

    async def keep_tidy(self) -> None:
        """Look after everybody for as long as the house is open."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            await self.round()

    async def round(self) -> None:
        """Tidy for everybody who has too much; what goes wrong with one person is no matter of the next."""
        try:
            crowded = await self._database.read(partial(memories.crowded, characters=self._budget))
        except (SQLAlchemyError, OSError) as error:
            log.warning("consolidation_held_up", error=str(error))
            return
        for user_id in crowded:
            try:
                await self.tidy(user_id)
            except Exception as error:
                # Best effort: the memories stay as they are, and the next round looks again.
                log.warning("consolidation_held_up", user_id=user_id, error=str(error) or type(error).__name__)

    async def tidy(self, user_id: str) -> int:
        """Merge what one person has too much of; gives how many memories were put aside."""
        if self._busy():
            return 0
        gone = 0
        # Not on the event loop: many memories take some time to compare, and nobody's turn waits for that.
        for group in await asyncio.to_thread(doubles, self._mergeable(await self._live(user_id))):
            newest = max(group, key=lambda memory: memory.updated_at)
            gone += await self._replace(user_id, group, newest.text)
        held = await self._live(user_id)
        if not self._may_ask(held) or self._busy():
            return gone
        part = part_of_round(self._mergeable(held), self._rounds[user_id])
        for group in await asyncio.to_thread(related, part):
            if self._model is None or not self._may_ask(held):
                break
            ids = frozenset(part.memory_id for part in group)
            if ids in self._tried:
                continue
            text = await self._merged(self._model, group)
            if text is None:
                break
            self._remember_tried(ids)
            if fault := await asyncio.to_thread(what_is_wrong, text, group):
                log.info("memories_left_apart", user_id=user_id, memories=len(group), why=fault)
                continue
            gone += await self._replace(user_id, group, text)
            held = await self._live(user_id)
        else:
            self._rounds[user_id] += 1
        return gone

    def _may_ask(self, held: list[Memory]) -> bool:
        """Whether there is too much still, and a model that may be asked now."""
        return self._size(held) > self._budget and self._model is not None and self._quiet_until <= time.monotonic()

    async def _merged(self, model: Merger, group: list[Memory]) -> str | None:
        """The model's text, masked; None when it failed or somebody began to talk, who must not wait for it."""
        if self._busy():
            return None
        call = asyncio.ensure_future(
            model.complete(
                merge_request(group), purpose="compaction", timeout=self._timeout, max_tokens=ANSWER_TOKENS
            )
        )  # fmt: skip
        try:
            while not (await asyncio.wait([call], timeout=LOOK_SECONDS))[0]:
                if self._busy():
                    return None
            answer = call.result()
            # What was cut off lacks something.
            return "" if isinstance(answer, CutText) else self._redactor.text(answer).strip()
        except Exception as error:
            # Best effort: whatever went wrong, the memories stay as they are.
            self._quiet_until = time.monotonic() + BACK_OFF_SECONDS
            log.warning("consolidation_skipped", why=str(error) or type(error).__name__)
            return None
        finally:
            call.cancel()

    async def _replace(self, user_id: str, group: list[Memory], text: str) -> int:
        merged = await self._database.write(
            partial(memories.merge, user_id=user_id, parts=group, text=text, source=SOURCE)
        )
        if merged is None:
            return 0
        log.info("memories_merged", user_id=user_id, into=merged.memory_id, memories=len(group))
        return sum(part.memory_id != merged.memory_id for part in group)

    async def _live(self, user_id: str) -> list[Memory]:
        return await self._database.read(partial(memories.live, user_id=user_id))

    @staticmethod
    def _mergeable(held: list[Memory]) -> list[Memory]:
        """Without those that were merged once and taken apart by the person."""
        return [memory for memory in held if memory.merged_into is None]

    @staticmethod
    def _size(held: list[Memory]) -> int:
        return sum(len(memory.text) for memory in held)

    def _remember_tried(self, ids: frozenset[str]) -> None:
        if len(self._tried) >= MOST_TRIED:
            self._tried.clear()
        self._tried.add(ids)
