"""Running a declared command: no shell, named variables only, bounded output, a clean end (E4, F2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from butler.argtext import text_of
from butler.tools.output import Output
from butler.tools.strays import VARIABLE, kill_strays
from butler.types import Invocation, Json, ToolResult, ToolRunner
from config.templates import Template
from config.tools_file import ToolDefinition

GRACE_SECONDS = 0.5
"""How long output is still awaited after the program has ended, while others hold its pipe open."""


def command_runner(definition: ToolDefinition, environ: Mapping[str, str]) -> ToolRunner:
    """Give the function that runs a tool's command.

    Args:
        environ: the variables in force; the tool gets only those it names, and BUTLER_ACTION_ID.
    """
    templates = definition.command or ()
    passed = {name: environ[name] for name in definition.env if name in environ}

    async def run(invocation: Invocation) -> ToolResult:
        try:
            argv = _arguments(templates, invocation.args)
        except ValueError as error:
            return ToolResult(f"The command was not started: {error}.", is_error=True)
        program = await asyncio.to_thread(_program, argv[0].decode(), environ)
        if program is None:
            return ToolResult(f"The command was not started: there is no program {argv[0].decode()!r}.", True)
        running = _Running(
            [os.fsencode(program), *argv[1:]],
            {**passed, VARIABLE: invocation.action_id},
            definition,
            invocation.action_id,
        )
        return await running.result()

    return run


def _arguments(templates: tuple[Template, ...], args: Json) -> list[bytes]:
    """Fill in the items; a missing argument is an empty text.

    A value that starts with '-' reads like an option to many programs; the tool's author puts '--' before it.
    """

    def value(name: str) -> str:
        return text_of(args[name]) if name in args else ""

    argv = [template.fill(value, lambda name: "").encode("utf-8") for template in templates]
    if any(b"\0" in item for item in argv):
        raise ValueError("an argument holds the NUL character")
    return argv


def _program(name: str, environ: Mapping[str, str]) -> str | None:
    """Find a program by the server's own PATH, also where the tool is not given it."""
    return name if "/" in name else shutil.which(name, path=environ.get("PATH", os.defpath))


class _Collector(asyncio.Protocol):
    """Takes in what comes through the pipe."""

    def __init__(self) -> None:
        self.output = Output()
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.output.add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class _Running:
    """One run of a command in a session of its own."""

    def __init__(self, argv: list[bytes], env: dict[str, str], definition: ToolDefinition, action_id: str) -> None:
        self._argv = argv
        self._env = env
        self._definition = definition
        self._action_id = action_id

    async def result(self) -> ToolResult:
        with ExitStack() as stack:
            # A pipe of our own: asyncio's would make wait() last until the last grandchild closes it.
            reader, writer = os.pipe()
            theirs = stack.enter_context(os.fdopen(writer, "wb", 0))
            transport, collector = await asyncio.get_running_loop().connect_read_pipe(
                _Collector, os.fdopen(reader, "rb", 0)
            )
            stack.callback(transport.close)
            try:
                process = await self._start(theirs.fileno())
            except OSError as error:
                why = f"{error.strerror or error} ({os.fsdecode(self._argv[0])!r})"
                return ToolResult(f"The command was not started: {why}.", is_error=True)
            theirs.close()
            return await self._finish(process, collector)

    async def _start(self, writer: int) -> asyncio.subprocess.Process:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                cwd=self._definition.cwd,
                env=self._env,
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Cancelled between fork and return: the process exists, so wait for its id to end it.
            with suppress(OSError):
                await self._kill(await starting)
            raise

    async def _finish(self, process: asyncio.subprocess.Process, collector: _Collector) -> ToolResult:
        output = collector.output
        try:
            async with asyncio.timeout(self._definition.timeout):
                status = await process.wait()
        except TimeoutError:
            await self._kill(process)
            seconds = f"{self._definition.timeout:g}"
            head = f"The command took longer than {seconds} s and was ended with all its processes."
            return ToolResult(_with_output(head, output.tail()), is_error=True)
        except asyncio.CancelledError:
            await self._kill(process)
            raise
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await collector.ended.wait()
        if not collector.ended.is_set():
            # The program is over, so is the tool: what still holds its output open is ended.
            _kill_group(process.pid)
        if status == 0:
            return ToolResult(output.text())
        cause = f"exit status {status}" if status > 0 else f"signal {_signal_name(-status)}"
        return ToolResult(_with_output(f"The command failed with {cause}.", output.tail()), is_error=True)

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        _kill_group(process.pid)
        # Processes that went to a session of their own still carry the action's id.
        await asyncio.to_thread(kill_strays, self._action_id)
        await process.wait()


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _with_output(head: str, output: str) -> str:
    return f"{head}\n{output}" if output else f"{head} It printed nothing."
