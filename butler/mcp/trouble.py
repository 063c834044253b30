"""Why a connection ended: the first thing that was noticed, and the news that it did."""

from __future__ import annotations

import asyncio


class Trouble:
    """What went wrong with one connection."""

    def __init__(self) -> None:
        self.why = ""
        self.words = ""
        """What the server last said of itself; only for people who keep it, never for a model."""
        self.status = 0
        """The HTTP status of the last answer, if it was 400 or above."""
        self.broken = ""
        """What was wrong with the last answer, or why none came, in Butler's words."""
        self.ended = asyncio.Event()

    def note(self, why: str) -> None:
        """Keep the first reason; those that follow are its consequences."""
        self.why = self.why or why

    def over(self) -> None:
        """The connection has ended."""
        self.ended.set()
