"""What a maid prints, as it comes: in bounded memory, line by line, with an end to floods and to silence (D11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

from butler.maids.contract import MaidEvent, Output, Stop
from butler.tools import output

CHUNK = 256 * 1024
LINE_BYTES = 1024 * 1024
"""A longer line is given in pieces."""
LINES_AT_ONCE = 200
BUSY_SECONDS = 1.0
"""How long the processor time of a silent maid is looked at, no longer than a quarter of its silence."""
BUSY_SHARE = 0.05
LEAST_BUSY = 0.02
"""Seconds; two ticks of the clock that counts processor time."""


class Flooded(Exception):
    """More was printed than is allowed."""


class Meter:
    """Counts the bytes of all streams of an attempt, and notes when something last came."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.last = asyncio.get_running_loop().time()

    def add(self, count: int) -> None:
        """Count `count` more bytes.

        Raises:
            Flooded: it is more than the limit now.
        """
        self.total += count
        self.sign()
        if self.total > self.limit:
            raise Flooded(f"printed more than {self.limit} bytes")

    def sign(self) -> None:
        """Note a sign of life."""
        self.last = asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Stream:
    """One output of a maid and what is kept of it for the evidence."""

    reader: asyncio.StreamReader
    kept: output.Output
    meter: Meter

    async def texts(self) -> AsyncIterator[str]:
        """Give what comes, one or more whole lines at a time; only the very last may have no end.

        Raises:
            Flooded: the maid printed more than it may.
        """
        rest = bytearray()
        while data := await self.reader.read(CHUNK):
            self.kept.add(data)
            self.meter.add(len(data))
            rest += data
            if b"\n" in data or len(rest) > LINE_BYTES:
                end = rest.rfind(b"\n") + 1 or len(rest)
                yield rest[:end].decode("utf-8", "replace")
                del rest[:end]
        if rest:
            yield rest.decode("utf-8", "replace")


def as_outputs(stream: Literal["stdout", "stderr"], text: str) -> list[MaidEvent]:
    """Tell a text line by line; one of very many lines as a whole, so that a flood does not keep Butler busy."""
    lines = lines_of(text) if text.count("\n") <= LINES_AT_ONCE else [text]
    return [Output(stream, line) for line in lines]


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends; a line ends at a newline and nowhere else."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


async def watch_clock(
    meter: Meter,
    longest: float,
    silence: float,
    foreground: Callable[[], str | None],
    used_cpu: Callable[[], float] = lambda: 0.0,
) -> Stop:
    """Wait until a maid has run or been silent for too long; one that waits for a command without doing anything hangs.

    Args:
        longest: seconds for all of it, from now.
        silence: seconds without any output.
        foreground: names the command that the maid waits for, if there seems to be one.
        used_cpu: seconds of processor time that the maid has used with all its processes.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + longest
    while (now := loop.time()) < end:
        if now >= meter.last + silence:
            last, used = meter.last, used_cpu()
            look = min(BUSY_SECONDS, silence / 4, end - now)
            await asyncio.sleep(look)
            if meter.last != last:
                continue
            command = foreground()
            quiet = f"nothing came for {silence:g} s"
            if command is None:
                return Stop("timeout", quiet)
            if used_cpu() - used > max(LEAST_BUSY, BUSY_SHARE * look):
                return Stop("timeout", f"{quiet} while {command!r} was computing")
            return Stop("hung_foreground", f"{quiet} while {command!r} was running")
        await asyncio.sleep(min(end, meter.last + silence) - now)
    return Stop("timeout", f"it took longer than {longest:g} s")
