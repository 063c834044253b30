"""Runs one maid that takes no requests: from its start through its output to the last of its processes (D4, D11)."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from butler.maids.contract import Finished, Interrupting, Launch, MaidEvent, Started, Stop, Watcher
from butler.maids.launching.processes import Graces, LaunchFailed, MaidProcess, spawn, through
from butler.maids.launching.sandbox import COMPLAINT, SANDBOX_LEVELS, sandboxed
from butler.maids.launching.speech import Speech
from butler.maids.launching.streams import Flooded, Meter, Stream, as_outputs, watch_clock
from butler.tools import output

DRAIN_SECONDS = 1.0
"""How long the rest of the output is read after everything has ended."""


@dataclass(frozen=True)
class Settings:
    """What all attempts have in common.

    `hidden`: folders that look empty inside the sandbox. `search`: where bubblewrap is looked for, None for PATH.
    """

    graces: Graces = field(default_factory=Graces)
    hidden: tuple[Path, ...] = ()
    search: str | None = None


async def run_headless(
    launch: Launch,
    argv: tuple[str, ...],
    watcher: Watcher,
    speech: Speech,
    settings: Settings,
    *,
    stdin: Literal["nothing"] | Path = "nothing",
    network: bool = True,
) -> Finished:
    """Run a command as a maid and tell the watcher everything; see `Launcher.run`.

    Args:
        argv: the filled command, not yet in the sandbox.
        network: whether it has one inside the sandbox.
    """
    started = time.monotonic()
    try:
        await asyncio.to_thread(_look_for, argv[0], launch)
        if launch.maid.sandbox == "bubblewrap":
            argv = await asyncio.to_thread(
                sandboxed, argv, launch, network=network, hidden=settings.hidden, search=settings.search
            )
        process = await spawn(
            argv, attempt_id=launch.attempt_id, environment=launch.environment, cwd=launch.tree, stdin=stdin
        )
    except LaunchFailed as error:
        stop = Stop("launch_error", f"The maid could not be started: {error}.")
        return Finished(None, stopped=stop, duration=time.monotonic() - started)
    attempt = _Attempt(launch, process, watcher, speech)
    try:
        return await attempt.result(settings.graces, started)
    except BaseException:
        await through(process.stop(settings.graces))
        raise
    finally:
        attempt.close()


class _Attempt:
    """One running command: two streams, two clocks, and whoever says stop first."""

    def __init__(self, launch: Launch, process: MaidProcess, watcher: Watcher, speech: Speech) -> None:
        self._launch = launch
        self._process = process
        self._watcher = watcher
        self._speech = speech
        self._meter = Meter(launch.maid.limits.output_bytes)
        self._out = Stream(process.stdout, output.Output(), self._meter)
        self._err = Stream(process.stderr, output.Output(), self._meter)
        self._stop: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    async def result(self, graces: Graces, started: float) -> Finished:
        """Follow the command to its end."""
        self._tell([Started(self._process.pid, self._process.argv)])
        readers = [asyncio.create_task(self._read_stdout()), asyncio.create_task(self._read_stderr())]
        clock = asyncio.create_task(self._watch_clock())
        ending = asyncio.create_task(self._wait())
        interrupter = (
            [asyncio.create_task(self._interrupt(self._watcher))] if isinstance(self._watcher, Interrupting) else []
        )
        self._tasks = [*readers, clock, ending, *interrupter]
        pending: set[asyncio.Future[Any]] = {self._stop, *self._tasks}
        while not (self._stop.done() or ending.done()):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            _raise_first(self._tasks)
        if not ending.done():
            await through(self._process.stop(graces))
        exit_code = await self._process.wait()
        await asyncio.wait(readers, timeout=DRAIN_SECONDS)
        _raise_first(readers)
        self._tell(self._speech.end())
        return Finished(
            exit_code,
            claim=self._speech.claim,
            stopped=self._why_stopped(exit_code),
            stdout_tail=self._out.kept.tail(),
            stderr_tail=self._err.kept.tail(),
            output_bytes=self._meter.total,
            tokens=self._speech.tokens,
            left_behind=self._process.left_behind,
            duration=time.monotonic() - started,
        )

    def _why_stopped(self, exit_code: int | None) -> Stop | None:
        if self._process.tampered is not None:
            return Stop("policy_violation", self._process.tampered)
        return self._stop.result() if self._stop.done() else self._refused_by_sandbox(exit_code)

    def close(self) -> None:
        """Let go of tasks and pipes."""
        for task in self._tasks:
            task.cancel()
        self._process.close()

    async def _read_stdout(self) -> None:
        try:
            async for text in self._out.texts():
                self._tell(self._speech.take(text))
        except Flooded as error:
            self._end(Stop("policy_violation", str(error)))

    async def _read_stderr(self) -> None:
        try:
            async for text in self._err.texts():
                self._tell(as_outputs("stderr", text))
        except Flooded as error:
            self._end(Stop("policy_violation", str(error)))

    async def _watch_clock(self) -> None:
        longest, silence = self._launch.maid.timeout, self._launch.maid.limits.silence
        self._end(await watch_clock(self._meter, longest, silence, self._foreground, self._process.used_cpu))

    async def _interrupt(self, watcher: Interrupting) -> None:
        self._end(await watcher.interrupted())

    def _foreground(self) -> str | None:
        command = self._process.foreground(0 if self._launch.maid.sandbox == "none" else SANDBOX_LEVELS)
        match self._speech.working:
            case None:
                return command  # a child of the maid is all there is to see
            case True:
                return command or "a tool"
            case False:
                return None

    async def _wait(self) -> None:
        await self._process.wait()

    def _tell(self, events: Sequence[MaidEvent]) -> None:
        for event in events:
            stop = self._watcher.event(event)
            if stop is not None:
                self._end(stop)

    def _end(self, stop: Stop) -> None:
        """The first reason counts."""
        if not self._stop.done():
            self._stop.set_result(stop)

    def _refused_by_sandbox(self, exit_code: int | None) -> Stop | None:
        complaint = self._err.kept.beginning().partition("\n")[0]
        if self._launch.maid.sandbox == "none" or not exit_code or not complaint.startswith(COMPLAINT):
            return None
        return Stop("launch_error", f"The sandbox could not be made: {complaint.removeprefix(COMPLAINT)}")


def _raise_first(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


def _look_for(program: str, launch: Launch) -> None:
    """Say what to do where a program is missing, before anything runs.

    Raises:
        LaunchFailed: it is not there, or no program.
    """
    place = str(launch.tree / program) if "/" in program else program
    if shutil.which(place, path=launch.environment.get("PATH", "")) is None:
        row = f"maid {launch.maid.maid_id}" + (f" ({launch.maid.source})" if launch.maid.source else "")
        raise LaunchFailed(
            f"the program {program!r} was not found; install it, or set the right path in command_template of {row}"
        )
