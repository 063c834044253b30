"""What the end of a run calls inside its own commit; kept apart, so that runs need not know about notifications."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from butler.storage.conversations import Run

Told = Callable[[Connection, Run], None]


def nobody(_connection: Connection, _run: Run) -> None:
    """Tell nobody."""
