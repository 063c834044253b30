"""The server that URL checks need: started in the tree, waited for, and gone afterwards with its port free (D8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from butler.maids.verify.children import GENTLY, Child, ProgramMissing
from butler.maids.verify.commands import Surroundings, require_allowed
from butler.maids.verify.findings import CheckError, Finding, bounded
from butler.maids.verify.http import ask
from butler.maids.verify.urls import Target

POLL_SECONDS = 0.05
ASK_SECONDS = 5.0
FREE_SECONDS = 3.0
STILL_STARTING = (502, 503)


@dataclass(frozen=True)
class Server:
    """A started server; `finding` says whether it became ready, `child` is None where it never ran."""

    finding: Finding
    first: Target
    child: Child | None = None


async def start_server(around: Surroundings, command: tuple[str, ...], first: Target, ready_within: float) -> Server:
    """Start a server and ask its first URL until it answers.

    Args:
        first: the URL that is polled; whoever listens there has `ready_within` to be gone.
        ready_within: seconds.

    Raises:
        CheckError: it is not allowed, can't be started, or its port is taken.
    """
    require_allowed(command, around.allowed)
    if not first.loopback:
        raise CheckError(f"The first URL, {str(first.url)!r}, is not on loopback, where the server would be.")
    if not await _gets_free(first, ready_within):
        raise CheckError(f"Port {first.port} is in use already, so another server would be checked.")
    try:
        child = await Child.start(command, around.tree, around.environment, around.mark, wrap=around.wrap)
    except ProgramMissing as missing:
        if missing.in_tree:
            return Server(Finding("failed", str(missing)), first)
        raise
    try:
        finding = await _wait_until_ready(child, first, ready_within)
    except BaseException:
        await child.end()
        raise
    return Server(finding, first, child)


async def stop_server(server: Server) -> Finding:
    """End the server with its whole tree and see that nobody listens any more; gives the last word on it."""
    if server.child is None:
        return server.finding
    await server.child.end(GENTLY)
    if server.finding.outcome == "failed":
        output = _output(server.child)
        return Finding("failed", bounded(f"{server.finding.actual}{output}"))
    if not await _gets_free(server.first, FREE_SECONDS):
        return Finding("error", f"Port {server.first.port} is still in use after the server was ended.")
    return server.finding


async def _wait_until_ready(child: Child, first: Target, ready_within: float) -> Finding:
    loop = asyncio.get_running_loop()
    began = loop.time()
    last = "it did not answer"
    try:
        async with asyncio.timeout(ready_within):
            while True:
                if child.has_ended:
                    why = f"ended with exit status {child.exit_code}; it has to stay in the foreground"
                    return Finding("failed", f"The server {why}.")
                if child.flooded.is_set():
                    return Finding("failed", "The server printed without end.")
                with suppress(TimeoutError):
                    async with asyncio.timeout(ASK_SECONDS):
                        answer = await ask(first, stop_at=200)
                        if answer.status and answer.status not in STILL_STARTING:
                            return Finding("passed", f"It answered after {loop.time() - began:.1f} s.")
                        last = answer.fault or f"it answered with status {answer.status}"
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return Finding("failed", f"The server was not ready within {ready_within:g} s: {last.rstrip('.')}.")


async def _gets_free(target: Target, seconds: float) -> bool:
    """Wait until nobody listens; another verification may use the same port for a moment."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while await _listens(target):
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def _listens(target: Target) -> bool:
    """Whether a connection to the target is taken."""
    for address in target.addresses:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                _, writer = await asyncio.open_connection(address, target.port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True
    return False


def _output(child: Child) -> str:
    parts: Sequence[str] = [child.stdout.tail(), child.stderr.tail()]
    text = "\n".join(part for part in parts if part.strip())
    return f"\nIt printed at the end:\n{text}" if text else " It printed nothing."
