"""Why an attempt has to end before its agent says so; the first reason counts."""

from __future__ import annotations

import asyncio

from butler.maids.contract import FailureClass, Stop


class Halt:
    """Reasons to end, from wherever they come; `asked` is set with the first.

    `hurry` is set where nobody waits for a clean end: the caller was cancelled, or the agent floods us.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.stop: Stop | None = None
        self.parked = False
        self.fault: Exception | None = None

    def because(self, stop: Stop) -> None:
        """End under a class of failure."""
        if not self.asked.is_set():
            self.stop = stop
            self.asked.set()

    def limit(self, failure_class: FailureClass, detail: str) -> None:
        """End because a limit is passed."""
        self.because(Stop(failure_class, detail))

    def park(self) -> None:
        """End because a permission was not answered in time; the attempt is run again after the verdict (D10)."""
        if not self.asked.is_set():
            self.parked = True
            self.asked.set()

    def failed(self, error: Exception) -> None:
        """End because Butler's own side failed; the error is raised on when everything has ended."""
        self.fault = self.fault or error
        self.asked.set()

    def kill(self) -> None:
        """End at once."""
        self.asked.set()
        self.hurry.set()
