"""Work that goes on beside the requests: begun again after a fault, and named by /readyz while it fails (F3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import structlog

log = structlog.get_logger("butler.background")

Work = Callable[[], Coroutine[None, None, None]]


@dataclass
class _Fault:
    """What a work failed with last, and since when it is being tried again."""

    text: str
    again_at: float


@dataclass
class Background:
    """Keeps works going; the pause before each new attempt grows up to `longest`, in seconds."""

    first: float = 1.0
    longest: float = 30.0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _faults: dict[str, _Fault] = field(default_factory=dict)

    def start(self, name: str, work: Work) -> None:
        """Begin a work; one that returns is over, one that raises is begun anew."""
        self._tasks.append(asyncio.create_task(self._keep(name, work)))

    def faults(self) -> dict[str, str]:
        """The works that fail now: those that wait for their next attempt, or have only just begun it."""
        now = time.monotonic()
        return {name: fault.text for name, fault in self._faults.items() if now < fault.again_at + self.first}

    async def stop(self) -> None:
        """End all works."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _keep(self, name: str, work: Work) -> None:
        pause = self.first
        while True:
            began = time.monotonic()
            try:
                await work()
            except Exception as error:
                if time.monotonic() - began > self.longest:
                    pause = self.first
                log.error("background_work_failed", work=name, retry_in=pause, exc_info=error)
                self._faults[name] = _Fault(f"{type(error).__name__}: {error}", time.monotonic() + pause)
            else:
                self._faults.pop(name, None)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, self.longest)
