"""The launcher for agents that speak the Agent Client Protocol (D4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path, PurePath

from butler.maids.acp.offer import Offer
from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.launching.processes import Graces, through
from butler.maids.launching.sandbox import sandboxed
from config.maid_types import MaidDefinition


def default_offer(maid: MaidDefinition) -> Offer:
    """Files and terminals for Goose, which then leaves writes and commands to Butler; nothing for the others.

    Of the agents that were tried no other uses terminals, and some stumble over our answers about files.
    """
    program = PurePath(maid.command_template[0]).name if maid.command_template else ""
    is_goose = maid.kind == "goose" or program == "goose"
    return Offer(files=is_goose, terminals=is_goose)


class AcpLauncher:
    """Runs agents over their standard input and output with the official SDK.

    Args:
        offer: what Butler does for a maid itself.
        load: the id of an earlier session that a launch goes on with; None for a new one. Needs the same home and the
            same tree; an agent that can't load begins a new one.
        hidden: folders that a sandboxed agent can't see.
        graces: seconds for each rung of the stop ladder.
    """

    def __init__(
        self,
        *,
        offer: Callable[[MaidDefinition], Offer] = default_offer,
        load: Callable[[Launch], str | None] = lambda launch: launch.resume.session_id if launch.resume else None,
        hidden: Sequence[Path] = (),
        graces: Graces | None = None,
    ) -> None:
        self._offer = offer
        self._load = load
        self._hidden = tuple(hidden)
        self._graces = graces or Graces()

    async def run(self, launch: Launch, watcher: Watcher) -> Finished:
        """Run one attempt. Cancelled, it kills everything before the cancelling goes on."""
        # Beside the event loop: the SDK takes most of a second to import.
        await asyncio.to_thread(import_module, "butler.maids.acp.attempt")
        from butler.maids.acp.attempt import Attempt

        offer, load = self._offer(launch.maid), self._load(launch)

        def wrap(argv: tuple[str, ...], folder: Path) -> Sequence[str]:
            if launch.maid.sandbox == "none":
                return argv
            command = sandboxed(argv, launch, network=True, hidden=self._hidden)
            at = command.index("--chdir") + 1
            return (*command[:at], str(folder), *command[at + 1 :])

        attempt = Attempt(launch, watcher, offer, wrap, self._graces, load)
        running = asyncio.ensure_future(attempt.run())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            attempt.halt.kill()
            await through(_ended(running))
            raise


async def _ended(running: asyncio.Task[Finished]) -> None:
    await asyncio.wait({running})
    if not running.cancelled():
        running.exception()  # the cancelling matters more
