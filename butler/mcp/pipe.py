"""A server that is a program: its own session, named variables only, no process left behind (E3, F2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from butler.mcp.limits import HOUSE, LAUNCH, MOST_MESSAGE, Bucket, Flood
from butler.mcp.lines import Lines, TooLong
from butler.mcp.trouble import Trouble
from butler.tools.strays import kill_strays
from config.mcp_file import McpServerDefinition

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
LEAVE_SECONDS, TERM_SECONDS = 1.0, 0.5
CHUNK = 64 * 1024
LAST_WORDS = 2_000
CALM_SECONDS = 0.01


@asynccontextmanager
async def pipe(
    definition: McpServerDefinition, environ: Mapping[str, str], house: str, told: Trouble
) -> AsyncIterator[Streams]:
    """Start the program and give what it says and hears; afterwards its whole process group is gone.

    Args:
        environ: the variables in force; the program gets PATH, HOME, LANG and those of its entry.
        house: the mark of this Butler's servers.
        told: learns why the connection ended.
    """
    program = _Program(definition, environ, house, told)
    process = await program.start()
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    # Some room, so that a server which does not read holds nobody up.
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](64)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program.read, process, to_session)
        tasks.start_soon(program.write, process, from_session)
        tasks.start_soon(program.listen, process)
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                await program.end(process)
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()
            tasks.cancel_scope.cancel()


class _Program:
    def __init__(
        self, definition: McpServerDefinition, environ: Mapping[str, str], house: str, told: Trouble
    ) -> None:  # fmt: skip
        self._definition = definition
        self._environ = environ
        self._house = house
        self._told = told
        self._launch = uuid.uuid4().hex
        self._words = bytearray()
        self._closed = False

    async def start(self) -> asyncio.subprocess.Process:
        """Raises OSError with the program's name in it."""
        name = self._definition.command or ""
        found = name if "/" in name else shutil.which(name, path=self._environ.get("PATH", os.defpath))
        if found is None:
            raise FileNotFoundError(f"there is no program {name!r}; install it, or correct 'command'")
        passed = {key: self._environ[key] for key in ("PATH", "HOME", "LANG") if key in self._environ}
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                found, *self._definition.args, cwd=self._definition.cwd, start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**passed, **self._definition.env, HOUSE: self._house, LAUNCH: self._launch},
            )
        )  # fmt: skip
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Cancelled between fork and return: the process exists, so wait for its id to end it.
            with suppress(OSError):
                await self.end(await starting)
            raise

    async def read(
        self, process: asyncio.subprocess.Process, out: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Pass on what the program says, message by message, until it says no more."""
        assert process.stdout is not None
        lines, bucket = Lines(), Bucket()
        try:
            async with out:
                while data := await process.stdout.read(CHUNK):
                    for line in lines.feed(data):
                        if (message := _message(line, bucket)) is not None:
                            await out.send(SessionMessage(message))
        except Flood as flood:
            self._told.note(str(flood))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            self._told.note(f"its output ended ({type(error).__name__})")
        self._closed = True
        self._told.over()

    async def write(
        self, process: asyncio.subprocess.Process, messages: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        """Pass on what the session says."""
        assert process.stdin is not None
        try:
            async with messages:
                async for item in messages:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                    await process.stdin.drain()
        except (OSError, RuntimeError) as error:
            self._told.note(f"it reads no more ({type(error).__name__})")
            self._told.over()

    async def listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep the end of what it says to nobody in particular."""
        assert process.stderr is not None
        while data := await process.stderr.read(CHUNK):
            self._words += data
            del self._words[:-LAST_WORDS]
            await anyio.sleep(CALM_SECONDS)  # Whoever writes without end has to wait.

    async def end(self, process: asyncio.subprocess.Process) -> None:
        """Let it go by itself, tell it to, then make it: the whole group, and what left the group."""
        closed, by_itself = self._closed, False
        if process.stdin is not None:
            process.stdin.close()
        for number, seconds in ((None, LEAVE_SECONDS), (signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
            if number is not None:
                _kill_group(process.pid, number)
            with anyio.move_on_after(seconds):
                await _exited(process)
                by_itself = number is None
                break
        if closed:
            self._told.note(_ending(process.returncode or 0) if by_itself else "it closed its output")
        self._told.words = " ".join(bytes(self._words).decode("utf-8", "replace").split())[-500:]
        _kill_group(process.pid, signal.SIGKILL)
        await asyncio.to_thread(kill_strays, self._launch, LAUNCH)
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


def _message(line: bytes | TooLong, bucket: Bucket) -> JSONRPCMessage | None:
    bucket.take()
    if isinstance(line, TooLong):
        if line.request_id is None:
            return None
        said = ErrorData(code=PARSE_ERROR, message=f"its answer has {line.size} bytes, over {MOST_MESSAGE >> 20} MiB")
        return JSONRPCError(jsonrpc="2.0", id=line.request_id, error=said)
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None  # Some programs print a greeting.
    return message


async def _exited(process: asyncio.subprocess.Process) -> None:
    # Not wait(): it lasts until the last grandchild closes the pipes.
    while process.returncode is None:  # noqa: ASYNC110 - the loop's watcher sets it, without an event
        await anyio.sleep(0.01)


def _ending(status: int) -> str:
    if status >= 0:
        return f"it ended with exit status {status}"
    with suppress(ValueError):
        return f"it ended by {signal.Signals(-status).name}"
    return f"it ended by signal {-status}"


def _kill_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
