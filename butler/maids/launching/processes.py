"""Starting a maid's process and ending it with everything that came from it (D11).

Each maid runs under a keeper (see `keeper.py`) in a session of its own, and all its processes carry
``MAID_RUN=ATTEMPT_ID`` in their environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import psutil

from butler.maids.launching.orphans import end_below, end_orphans
from butler.tools.strays import kill_strays

MARK = "MAID_RUN"
KEEPER = Path(__file__).with_name("keeper.py")
STREAM_LIMIT = 16 * 1024 * 1024
T = TypeVar("T")


class LaunchFailed(Exception):
    """The maid's program could not be started; the text says why."""


@dataclass(frozen=True)
class Graces:
    """Seconds that each rung of the stop ladder is given before the next."""

    stdin: float = 3.0
    terminate: float = 3.0
    kill: float = 5.0


AT_ONCE = Graces(stdin=0.0, terminate=0.0)


def sweep(attempt_id: str) -> int:
    """Kill every process that carries the attempt's mark; give how many were found.

    Also right after a restart, for attempts that a killed server left running. It blocks for some milliseconds:
    call it in a thread.
    """
    return kill_strays(attempt_id, MARK)


async def through(work: Coroutine[Any, Any, T]) -> T:
    """Await work to its end even when cancelled meanwhile; the cancelling goes on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        task.exception()  # the cancelling matters more
        raise cancelled
    return task.result()


class MaidProcess:
    """A running maid; `pid` is its own process, leader of its session and group."""

    def __init__(
        self,
        attempt_id: str,
        argv: tuple[str, ...],
        pid: int,
        keeper: asyncio.subprocess.Process,
        control: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        outputs: tuple[_Output, _Output],
    ) -> None:
        self.argv = argv
        self.pid = pid
        self.stdin = keeper.stdin
        self.stdout = outputs[0].reader
        self.stderr = outputs[1].reader
        self.left_behind = 0
        self.tampered: str | None = None
        """What the maid did to its keeper, in words; known once it has ended."""
        self._attempt_id = attempt_id
        self._keeper = keeper
        self._is_abandoned = False
        self._control, self._leash = control
        self._outputs = outputs
        try:
            self._maid: psutil.Process | None = psutil.Process(pid)
        except psutil.NoSuchProcess:
            self._maid = None  # it has ended already
        self._ending = asyncio.ensure_future(self._see_it_end())

    async def wait(self) -> int | None:
        """Wait until nothing of the maid runs any more; give its exit code, negative for a signal, None if unknown."""
        return await asyncio.shield(self._ending)

    async def stop(self, graces: Graces) -> int | None:
        """Go down the ladder: close stdin, SIGTERM, SIGKILL, sweep; each rung only as far as it is needed."""
        if self.stdin is not None:
            self.stdin.close()
            if await self._ended_within(graces.stdin):
                return await self.wait()
        self._signal(signal.SIGTERM)
        if not await self._ended_within(graces.terminate):
            self._signal(signal.SIGKILL)
            self._let_the_keeper_go_on()
            self._leash.write_eof()  # the keeper kills all the rest
            if not await self._ended_within(graces.kill):
                self._let_the_keeper_go_on()
                await asyncio.to_thread(end_below, self._keeper.pid)
                self._is_abandoned = True
                self._keeper.kill()
        return await self.wait()

    def close(self) -> None:
        """Let go of the pipes; what was not read is lost."""
        for output in self._outputs:
            output.transport.close()

    def foreground(self, below: int = 0) -> str | None:
        """The command line of a child that the maid seems to be waiting for, the newest one.

        Without a child of its own it may wait for one that has lost its parent, and holds a pipe for instance.

        Args:
            below: how many processes stand between this one and the maid's own.
        """
        with suppress(psutil.Error, OSError):
            children = [self._maid] if self._maid is not None else []
            for _ in range(below + 1):
                children = [child for above in children for child in above.children()]
            if below == 0:
                children = [
                    *(child for child in psutil.Process(self._keeper.pid).children() if child.pid != self.pid),
                    *children,
                ]
            for child in reversed(children):
                if child.status() != psutil.STATUS_ZOMBIE:
                    return " ".join(child.cmdline())[:200]
        return None

    def used_cpu(self) -> float:
        """Seconds of processor time that all below the keeper have used, also children that have ended by now."""
        used = 0.0
        with suppress(psutil.Error, OSError):
            keeper = psutil.Process(self._keeper.pid)
            for one in [keeper, *keeper.children(recursive=True)]:
                with suppress(psutil.Error):
                    used += sum(one.cpu_times()[:4])
        return used

    async def _ended_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait({self._ending}, timeout=seconds)
        return bool(done)

    def _signal(self, number: int) -> None:
        with suppress(psutil.Error, OSError):
            # psutil knows whether the id has gone to another process meanwhile.
            if self._maid is not None and self._maid.is_running() and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)

    def _let_the_keeper_go_on(self) -> None:
        """A maid that stopped its keeper hopes to outlive it."""
        with suppress(psutil.Error, OSError):
            if psutil.Process(self._keeper.pid).status() == psutil.STATUS_STOPPED:
                self.tampered = "It stopped the process that watches over it."
                self._keeper.send_signal(signal.SIGCONT)

    async def _see_it_end(self) -> int | None:
        try:
            report = _report(await self._control.readline())
        finally:
            self._leash.close()  # also when all tasks are cancelled: then the keeper ends everything
        is_lost = "exit" not in report
        if is_lost:
            self._signal(signal.SIGKILL)  # the keeper was killed
        if self.stdin is not None:
            self.stdin.close()
        if report.get("running"):
            self.tampered = "It starts processes faster than they can be ended."
            status = 0  # the keeper goes on for as long as it takes
        else:
            status = await self._keeper.wait()
        if is_lost and status < 0 and not self._is_abandoned:
            self.tampered = self.tampered or "It killed the process that watches over it."
        self.left_behind = report.get("left", 0)
        if is_lost:
            # First: the sweep looks at the whole machine, and meanwhile they would fork without end.
            self.left_behind += await asyncio.to_thread(end_orphans)
        self.left_behind += await asyncio.to_thread(sweep, self._attempt_id)
        return report.get("exit")


@dataclass(frozen=True)
class _Output:
    """One of the maid's output pipes."""

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


async def spawn(
    argv: Sequence[str],
    *,
    attempt_id: str,
    environment: Mapping[str, str],
    cwd: Path,
    stdin: Literal["pipe", "nothing"] | Path = "nothing",
) -> MaidProcess:
    """Start a maid's program: no shell, nothing inherited, a session of its own.

    Args:
        environment: complete; ``MAID_RUN`` is added.
        stdin: a pipe, ``/dev/null``, or a file to read from.

    Raises:
        LaunchFailed: there is no such program, or the system refuses to run it.
    """
    starting = asyncio.ensure_future(_spawn(tuple(argv), attempt_id, {**environment, MARK: attempt_id}, cwd, stdin))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelled between fork and return: the process exists, and nobody else knows it.
        with suppress(LaunchFailed):
            await through(_undo(starting))
        raise


async def _undo(starting: asyncio.Task[MaidProcess]) -> None:
    process = await starting
    await process.stop(AT_ONCE)
    process.close()


async def _spawn(
    argv: tuple[str, ...], attempt_id: str, environment: Mapping[str, str], cwd: Path, stdin: str | Path
) -> MaidProcess:
    if any("\0" in item for item in argv):
        raise LaunchFailed("an argument holds the NUL character")
    with ExitStack() as always, ExitStack() as failing:
        ours, theirs = socket.socketpair()
        always.enter_context(theirs)
        control = await asyncio.open_unix_connection(sock=ours)
        failing.callback(control[1].close)
        outputs, writers = [], []
        for _ in range(2):
            output, writer = await _output()
            failing.callback(output.transport.close)
            writers.append(always.enter_context(writer))
            outputs.append(output)
        source: int | IO[bytes] = subprocess.PIPE if stdin == "pipe" else subprocess.DEVNULL
        try:
            if isinstance(stdin, Path):
                source = always.enter_context(stdin.open("rb"))
            keeper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(KEEPER), str(theirs.fileno())),
                *argv,
                stdin=source,
                stdout=writers[0],
                stderr=writers[1],
                cwd=cwd,
                env=environment,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        except (OSError, ValueError) as error:
            raise LaunchFailed(_reason(error, argv)) from error
        theirs.close()
        report = _report(await control[0].readline())
        if "pid" not in report:
            if keeper.stdin is not None:
                keeper.stdin.close()
            await keeper.wait()
            raise LaunchFailed(f"{report.get('message', 'its keeper ended')} ({report.get('file') or argv[0]!r})")
        failing.pop_all()
        return MaidProcess(attempt_id, argv, report["pid"], keeper, control, (outputs[0], outputs[1]))


async def _output() -> tuple[_Output, IO[bytes]]:
    """A pipe of our own: asyncio's would keep its process from ending until the last grandchild closes it."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=STREAM_LIMIT)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    return _Output(reader, transport), os.fdopen(writing, "wb", 0)


def _report(line: bytes) -> dict[str, Any]:
    """What the keeper tells; nothing if it was killed in the middle."""
    try:
        report = json.loads(line)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _reason(error: OSError | ValueError, argv: tuple[str, ...]) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or argv[0]!r})"
    return str(error)
