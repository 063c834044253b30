"""The `maid` events of a run's stream (http-api, *Streaming*)."""

from __future__ import annotations

from collections.abc import Callable

from butler.maids.store import MaidRun
from butler.types import Json

Emit = Callable[[str, Json], None]


def tell(emit: Emit, run: MaidRun, attempt: int | None, phase: str, detail: str, maid_id: str | None = None) -> None:
    """Say how a task goes; `attempt` is a number where it is about one attempt."""
    emit("maid", {"maid_run_id": run.maid_run_id, "maid_id": maid_id or run.maid_id, "attempt": attempt,
                  "phase": phase, "detail": detail})  # fmt: skip
