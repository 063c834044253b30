"""A program that a check runs: kept like a maid, with bounded output, and nothing left of it at its end (D8, D11)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from butler.maids.launching.processes import Graces, LaunchFailed, MaidProcess, spawn, through
from butler.maids.verify.findings import CheckError

TAIL = 4 * 1024
FLOOD = 64 * 1024 * 1024
"""Bytes of output at which a program is ended."""
AT_ONCE = Graces(stdin=0.0, terminate=0.0)
Wrap = Callable[[Sequence[str]], tuple[str, ...]]
"""Gives a command as it is started in a sandbox; raises LaunchFailed where there is none."""
GENTLY = Graces(stdin=0.0, terminate=0.5)


class ProgramMissing(CheckError):
    """There is no such program to start; `in_tree` if it was to be a file of the tree."""

    def __init__(self, detail: str, *, in_tree: bool) -> None:
        super().__init__(detail)
        self.in_tree = in_tree


class Capture:
    """The beginning, up to `limit` bytes, and the end of what came through a pipe."""

    def __init__(self, limit: int) -> None:
        self.head = bytearray()
        self.total = 0
        self._tail = bytearray()
        self._limit = limit

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self.total += len(data)
        self.head += data[: max(0, self._limit - len(self.head))]
        self._tail += data[-TAIL:]
        del self._tail[:-TAIL]

    @property
    def is_cut(self) -> bool:
        """Whether there was more than `head` holds."""
        return self.total > len(self.head)

    def tail(self) -> str:
        """The last few KiB as text, and whether that is all."""
        note = f"[only the last {TAIL} of {self.total} bytes]\n" if self.total > TAIL else ""
        return note + self._tail.decode("utf-8", "replace")


class Child:
    """One running program of a check; `flooded` is set once it has printed too much."""

    def __init__(self, process: MaidProcess, keep: int) -> None:
        self.stdout = Capture(keep)
        self.stderr = Capture(0)
        self.flooded = asyncio.Event()
        self.exit_code: int | None = None
        self.left_behind = 0
        self._process = process
        self._waiting = asyncio.ensure_future(self._wait())
        self._reading = [
            asyncio.ensure_future(self._read(process.stdout, self.stdout)),
            asyncio.ensure_future(self._read(process.stderr, self.stderr)),
        ]

    @classmethod
    async def start(
        cls, argv: tuple[str, ...], tree: Path, environment: Mapping[str, str], mark: str, *, keep: int = 0,
        wrap: Wrap | None = None,
    ) -> Child:  # fmt: skip
        """Start `argv` in the tree, with standard input empty.

        Args:
            environment: complete, but for the mark.
            mark: what all its processes are found by.
            keep: bytes of standard output that are kept from its beginning.
            wrap: puts it into a sandbox.

        Raises:
            ProgramMissing: there is no such program, or it can't be started.
        """
        program, is_in_tree = await asyncio.to_thread(_program, argv[0], tree, environment)
        started: list[MaidProcess] = []

        async def starting() -> None:
            argv_found = (program, *argv[1:])
            if wrap is not None:
                argv_found = wrap(argv_found)
            started.append(await spawn(argv_found, attempt_id=mark, environment=environment, cwd=tree))

        try:
            await through(starting())
        except asyncio.CancelledError:
            for process in started:
                await through(process.stop(AT_ONCE))
                process.close()
            raise
        except LaunchFailed as error:
            raise ProgramMissing(f"{argv[0]!r} can't be started: {error}.", in_tree=is_in_tree) from error
        return cls(started[0], keep)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._waiting.done()

    async def wait(self) -> None:
        """Wait until it has ended or has printed too much."""
        flooded = asyncio.ensure_future(self.flooded.wait())
        try:
            await asyncio.wait({self._waiting, flooded}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flooded.cancel()

    async def end(self, graces: Graces = AT_ONCE) -> None:
        """End whatever runs of it, and read the rest of its output; also when cancelled meanwhile."""
        await through(self._end(graces))

    async def _end(self, graces: Graces) -> None:
        if not self.has_ended:
            await self._process.stop(graces)
        await self._waiting
        # Nobody holds the pipes any more, so the readers come to their end.
        _, late = await asyncio.wait(self._reading, timeout=1.0)
        for reading in late:
            reading.cancel()
        self._process.close()

    async def _wait(self) -> None:
        self.exit_code = await self._process.wait()
        self.left_behind = self._process.left_behind

    async def _read(self, stream: asyncio.StreamReader, capture: Capture) -> None:
        while data := await stream.read(256 * 1024):
            capture.add(data)
            if capture.total > FLOOD:
                self.flooded.set()


def _program(name: str, tree: Path, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Find a program and tell if it is a file of the tree, as a relative path is.

    A bare name is looked for in the check's own PATH.
    """
    if "/" in name:
        found = os.path.join(os.path.realpath(tree), name)
        is_in_tree = not os.path.isabs(name)
        if not os.path.isfile(found):
            raise ProgramMissing(f"There is no file {name!r}.", in_tree=is_in_tree)
        return found, is_in_tree
    path = shutil.which(name, path=environment.get("PATH", os.defpath))
    if path is None:
        raise ProgramMissing(f"There is no program {name!r}.", in_tree=False)
    return path, False
