"""Where the requests of an agent wait for their verdict: the watcher rules, a closing attempt cancels (D10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from butler.maids.acp.halting import Halt
from butler.maids.acp.permissions import Option, can_allow, request_of
from butler.maids.acp.places import Place
from butler.maids.contract import PermissionAnswer, PermissionRequest, Watcher
from butler.maids.permissions import SHELL_TEXT, SHELLS


class Desk:
    """Asks the watcher, one question per request, and remembers which commands have been allowed but not run yet.

    Args:
        beat: called when a verdict is there, as the agent could not be heard meanwhile.
    """

    def __init__(self, watcher: Watcher, place: Place, halt: Halt, beat: Callable[[], None]) -> None:
        self._watcher = watcher
        self._place = place
        self._halt = halt
        self._beat = beat
        self._closing = asyncio.Event()
        self._allowed: Counter[str | tuple[str, ...]] = Counter()
        self.waiting = 0

    async def ask(self, call: Mapping[str, Any], options: Sequence[Option]) -> PermissionAnswer:
        """Rule on what an agent asks; `call` is all that it said of the tool call.

        Where a yes could only be given for good, nobody is asked and the answer is a no.
        """
        if not can_allow(options):
            return "reject"
        request = request_of(self._place, call)
        answer = await self.rule(request)
        if answer == "allow" and request.kind == "execute" and request.command:
            self._allowed[_same(request.command)] += 1
        return answer

    async def ask_to_run(self, request: PermissionRequest) -> PermissionAnswer:
        """Rule on a command in a terminal of ours; one that was just allowed is not asked again."""
        key = _same(request.command or "")
        if self._allowed[key] > 0 and not self._closing.is_set():
            self._allowed[key] -= 1
            return "allow"
        return await self.rule(request)

    async def rule(self, request: PermissionRequest) -> PermissionAnswer:
        """Wait for the watcher's answer, or for the end of the attempt."""
        if self._closing.is_set() or self._halt.asked.is_set():
            return "cancel"
        question = asyncio.ensure_future(self._watcher.permission(request))
        closing = asyncio.ensure_future(self._closing.wait())
        self.waiting += 1
        try:
            await asyncio.wait({question, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.waiting -= 1
            self._beat()
            closing.cancel()
            if not question.done():
                question.add_done_callback(lambda late: late.cancelled() or late.exception())
                question.cancel()
        if not question.done() or question.cancelled():
            return "cancel"
        if (error := question.exception()) is not None:
            self._halt.failed(error if isinstance(error, Exception) else RuntimeError(str(error)))
            return await self._until_closed()
        answer = question.result()
        if answer == "cancel":
            self._halt.park()
            return await self._until_closed()
        return "cancel" if self._closing.is_set() else answer

    async def _until_closed(self) -> PermissionAnswer:
        """Leave the agent without an answer until its turn is cancelled, lest it goes on as after a no."""
        await self._closing.wait()
        return "cancel"

    def close(self) -> None:
        """Answer everything that waits, and all that still comes, with ``cancelled``."""
        self._closing.set()


def _same(command: tuple[str, ...] | str) -> str | tuple[str, ...]:
    """One form of a command, whether said as text or as the argument list of a shell."""
    if isinstance(command, str):
        return command.strip()
    if len(command) == 3 and PurePath(command[0]).name in SHELLS and SHELL_TEXT.fullmatch(command[1]):
        return command[2].strip()
    return command if len(command) > 1 else command[0].strip()
