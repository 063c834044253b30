"""Folding older turns into notes and the summary that they make: off the user's path, best effort, all or nothing
(C2, C3, C4).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from butler.clock import stamp
from butler.memory.checks import IN_PLAIN_WORDS, Fault
from butler.memory.extraction import ANSWER_TOKENS, SCHEMA, fold_request, turns_that_fit
from butler.memory.folding import Outcome, fold
from butler.memory.foldparts import BackOff, CompactionConfig, Completer, FoldCounts, Folded
from butler.memory.history import unanswered
from butler.memory.notes import Notes
from butler.memory.tokens import count_messages
from butler.models.failures import TooSlow
from butler.models.overflow import ContextOverflow
from butler.telemetry import Value, span
from butler.types import Json

__all__ = ["CompactionConfig", "Compactor", "cut_index"]

log = structlog.get_logger("butler.compaction")

PATIENCE_SECONDS = 1.0
"""A turn that has heard nothing of the model for so long takes precedence over the folds at its endpoint."""
LONG_PATIENCE_SECONDS = 5.0
"""The same for a fold that was given up `WAYS_GIVEN` times in a row, or a busy house would never fold."""
WAYS_GIVEN = 3
LEAST_ROOM = 2000
"""No request is made smaller than that after one that was too long."""
MOST_WAYS_GIVEN = 6
"""From then on a fold runs to its end: what is always given up is paid for each time and never done."""


@dataclass(frozen=True)
class _Ready:
    prefix: list[Json]
    notes: Notes
    at: str


class Compactor:
    """Takes notes in the background and hands each fold over once, if what it folded is still the exact prefix."""

    def __init__(self, model: Completer, config: CompactionConfig) -> None:
        self._model = model
        self._config = config
        self._room = config.request_tokens
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ready: dict[str, _Ready] = {}
        self._back_off: dict[str, BackOff] = {}
        self._gave_way: dict[str, int] = {}
        self._wanted: set[str] = set()
        self.counts = FoldCounts()

    def due(self, messages: Sequence[Json], context_tokens: int) -> bool:
        """Whether the context has grown over a threshold, or over half of what the model takes."""
        tokens = min(self._config.trigger_tokens, self._config.request_tokens // 2)
        return (len(messages) >= self._config.trigger_messages or context_tokens >= tokens) and cut_index(
            messages, self._config.recent_window
        ) > 0

    def start(
        self, thread_id: str, messages: Sequence[Json], summary: str, notes: Sequence[Any] | None = None,
        *, wished: bool = False,
    ) -> bool:  # fmt: skip
        """Begin folding; False when that is under way, ready, backing off or there is nothing to fold.

        Args:
            summary: the thread's summary; it counts only where there are no notes.
            notes: the thread's notes as the state has them.
            wished: a person asks for it, so an earlier failure does not hold it back.
        """
        cut = cut_index(messages, self._config.recent_window)
        if (
            cut == 0
            or thread_id in self._tasks
            or thread_id in self._ready
            or (not wished and self._back_off.get(thread_id, BackOff()).until > time.monotonic())
        ):
            return False
        task = asyncio.create_task(self._fold(thread_id, list(messages[:cut]), summary, notes))
        self._tasks[thread_id] = task
        task.add_done_callback(lambda done: self._tasks.get(thread_id) is done and self._tasks.pop(thread_id))
        return True

    def under_way(self, thread_id: str) -> bool:
        """Whether this thread is being folded now."""
        return thread_id in self._tasks

    def why_not(self, thread_id: str) -> str:
        """Why this thread's last fold was refused, in plain words; empty when it was not."""
        back_off = self._back_off.get(thread_id)
        return IN_PLAIN_WORDS[back_off.reason] if back_off is not None else ""

    def take(self, thread_id: str, messages: Sequence[Json]) -> Folded | None:
        """The finished fold of this thread, if it still fits its history."""
        ready = self._ready.pop(thread_id, None)
        if ready is None or list(messages[: len(ready.prefix)]) != ready.prefix:
            return None
        count = len(ready.prefix)
        notice = (
            f"{count} older messages were folded into this thread's summary. They stay readable: the transcript keeps "
            "them word for word, and search_history finds them."
        )
        return Folded(ready.notes.render(), ready.notes.to_json(), list(messages[count:]), ready.at, notice)

    def forget(self, thread_id: str) -> None:
        """Drop what is under way or ready for a thread that is gone."""
        self._ready.pop(thread_id, None)
        self._back_off.pop(thread_id, None)
        self._gave_way.pop(thread_id, None)
        if (task := self._tasks.pop(thread_id, None)) is not None:
            task.cancel()

    @contextmanager
    def behind(self, endpoint: str) -> Iterator[Callable[[], None]]:
        """Put a turn that asks the model at `endpoint` before the folds there; yields what ends its wait.

        A server that takes one request at a time would let a person wait for a fold (C3). An endpoint that answers
        soon is not held up by one, so folds go on there.
        """
        if endpoint != self._model.endpoint:
            yield lambda: None
            return
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(PATIENCE_SECONDS, self._give_way, WAYS_GIVEN),
            loop.call_later(LONG_PATIENCE_SECONDS, self._give_way, MOST_WAYS_GIVEN),
        ]

        def end_wait() -> None:
            for timer in timers:
                timer.cancel()

        try:
            yield end_wait
        finally:
            end_wait()

    async def settle(self, thread_id: str) -> bool:
        """Wait for the fold under way, which now gives way to nobody; True when one is ready to be taken."""
        if (task := self._tasks.get(thread_id)) is not None:
            self._wanted.add(thread_id)
            try:
                await asyncio.wait([task])
            finally:
                self._wanted.discard(thread_id)
        return thread_id in self._ready

    async def aclose(self) -> None:
        """Stop what is under way; an unfinished fold changes nothing."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _give_way(self, at_most: int) -> None:
        """Give up what is under way: nothing changes, and the thread's next turn begins it again.

        Folds that were given up `at_most` times in a row already go on.
        """
        for thread_id, task in list(self._tasks.items()):
            times = self._gave_way.get(thread_id, 0)
            if thread_id in self._wanted or times >= at_most:
                continue
            self._gave_way[thread_id] = times + 1
            self.counts.gave_way += 1
            task.cancel()
            log.info("compaction_gave_way", thread_id=thread_id, times=times + 1)

    async def _fold(self, thread_id: str, prefix: list[Json], summary: str, stored: Sequence[Any] | None) -> None:
        about: dict[str, Value] = {"gen_ai.conversation.id": thread_id, "butler.messages": len(prefix)}
        with span("butler.context_compaction", about) as told:
            fault = await self._try_to_fold(thread_id, prefix, summary, stored)
            if fault is not None:
                told.fail(fault.reason)

    async def _try_to_fold(
        self, thread_id: str, prefix: list[Json], summary: str, stored: Sequence[Any] | None
    ) -> Fault | None:
        """One try; gives why nothing came of it."""
        try:
            notes = Notes.from_state(stored, summary)
            room = self._room_of(thread_id)
            prefix = prefix[: turns_that_fit(prefix, notes, room)]
            request = fold_request(prefix, notes, room)
            answer = await self._model.complete(
                request, purpose="compaction", timeout=self._config.timeout,
                max_tokens=ANSWER_TOKENS, schema=SCHEMA,
            )  # fmt: skip
            # Not on the event loop: a long answer over a long prefix takes some milliseconds to check.
            outcome = await asyncio.to_thread(fold, answer, prefix, notes)
        except ContextOverflow as error:
            # The next try takes fewer turns and shorter lines.
            self._room = max(LEAST_ROOM, error.overflow.smaller_limit(self._room, count_messages(request)))
            outcome = _fault_of(error)
        except Exception as error:
            # Best effort (C3): whatever went wrong, the talk goes on as it was.
            outcome = _fault_of(error)
        self._gave_way.pop(thread_id, None)
        if isinstance(outcome, Fault):
            self._refuse(thread_id, outcome)
            return outcome
        self._accept(thread_id, prefix[: outcome.messages], outcome)
        return None

    def _room_of(self, thread_id: str) -> int:
        """The tokens of a request: each answer that was cut off halves them, since fewer turns need fewer words."""
        back_off = self._back_off.get(thread_id, BackOff())
        return max(min(LEAST_ROOM, self._room), self._room >> back_off.cuts)

    def _refuse(self, thread_id: str, fault: Fault) -> None:
        self.counts.refused[fault.reason] += 1
        wait = self._back_off.setdefault(thread_id, BackOff()).grow(fault.reason)
        log.warning("compaction_skipped", thread_id=thread_id, reason=fault.reason, why=fault.detail, wait=wait)

    def _accept(self, thread_id: str, prefix: list[Json], outcome: Outcome) -> None:
        self.counts.folded += 1
        self.counts.notes_left.update(outcome.left)
        self._back_off.pop(thread_id, None)
        self._ready[thread_id] = _Ready(prefix, outcome.notes, stamp())
        log.info("compaction_ready", thread_id=thread_id, messages=len(prefix), notes=len(outcome.notes.items),
                 taken=outcome.taken, left=dict(outcome.left))  # fmt: skip


def _fault_of(error: Exception) -> Fault:
    detail = str(error) or type(error).__name__
    return Fault("timeout" if isinstance(error, TimeoutError | TooSlow) else "error", detail)


def cut_index(messages: Sequence[Json], recent_window: int) -> int:
    """How many of the oldest messages may fold: whole turns before the recent window and before any open call."""
    limit = min(len(messages) - recent_window, unanswered(messages))
    starts = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    usable = [index for index in starts if 0 < index <= limit]
    return usable[-1] if usable else 0
