"""Work that goes on when whoever asked for it goes away: a commit is never parted from what must follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def carried_through(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a coroutine function run to its end also when its caller is cancelled."""

    @wraps(work)
    async def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.ensure_future(work(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The task keeps itself alive through the futures it waits on; its failure has no other listener.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    return carried
