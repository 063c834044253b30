"""The calls of one round side by side: whoever waits for a person stays awake while another call still runs (A5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Round:
    """Who of a run's calls is at work. Only wakes and counts: what holds stands in the ledger.

    LangGraph goes on only when every node of the round has stopped. A call that is approved while another one runs
    would have to wait for it, so its node stays until nothing else of the round is at work.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._held: set[str] = set()
        self._waiting = 0
        self._version = 0
        self._stirred = asyncio.Event()

    @contextmanager
    def taking_part(self) -> Iterator[None]:
        """Count a node in for as long as it works or waits."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self.stir()

    def hold(self, call_id: str) -> None:
        """Count a call in that takes several nodes, until `let_go`; a second time changes nothing."""
        self._held.add(call_id)

    def let_go(self, call_id: str) -> None:
        """The call is over, or parks."""
        self._held.discard(call_id)
        self.stir()

    @property
    def version(self) -> int:
        """Changes with every `stir`; read it before looking at the ledger."""
        return self._version

    @property
    def others_at_work(self) -> bool:
        """Whether any node beside the caller and those that wait is still working."""
        return self._inside + len(self._held) - self._waiting > 1

    def stir(self) -> None:
        """Wake all who wait: a decision was written, or a call has ended."""
        self._version += 1
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def changed_since(self, version: int, *, at_work: bool = False) -> None:
        """Wait until something was stirred after `version` was read; `at_work` counts as working meanwhile."""
        waiting = 0 if at_work else 1
        self._waiting += waiting
        try:
            while self._version == version:
                await self._stirred.wait()
        finally:
            self._waiting -= waiting
