"""Terminals that an agent asks Butler for: its commands as our processes, in its tree, ending with it (D4, D10)."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from acp import RequestError
from acp.schema import TerminalExitStatus

from butler.maids.acp.desk import Desk
from butler.maids.acp.places import Place
from butler.maids.contract import Launch, PermissionRequest
from butler.maids.launching.processes import AT_ONCE, LaunchFailed, MaidProcess, spawn

Wrap = Callable[[tuple[str, ...], Path], Sequence[str]]
MOST_TERMINALS = 16
MOST_OUTPUT = 1024 * 1024
"""Bytes kept of a terminal's output; the beginning goes first."""
TAIL = 4096
LOADING = re.compile(r"(LD_|DYLD_|GIT_|PYTHON|PERL|RUBY|NODE_|BASH|ENV\Z|IFS\Z|SHELLOPTS\Z|PS4\Z)")
"""Variables by which programs are made to run other code."""


@dataclass
class Terminal:
    """One command; `output` is the end of what it has written."""

    process: MaidProcess
    limit: int
    output: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    follower: asyncio.Task[None] | None = None

    def add(self, data: bytes) -> None:
        """Append, and forget the beginning beyond the limit."""
        self.output += data
        if len(self.output) > self.limit:
            del self.output[: len(self.output) - self.limit]
            self.truncated = True

    def text(self) -> str:
        """The output as text; a character that was cut at the beginning is left out."""
        data = bytes(self.output)
        if self.truncated:
            start = next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)
            data = data[start:]
        return data.decode("utf-8", errors="replace")

    def status(self) -> TerminalExitStatus | None:
        """How the command ended; None while it runs."""
        if not self.ended.is_set():
            return None
        code = self.exit_code
        if code is not None and code < 0:
            return TerminalExitStatus(signal=_signal_name(-code))
        return TerminalExitStatus(exit_code=code)


class Terminals:
    """All terminals of an attempt.

    Args:
        launch: whose environment they get.
        on_output: told how many bytes a command has written.
        wrap: puts a command that is to run in a folder into the attempt's sandbox.
    """

    def __init__(
        self,
        launch: Launch,
        place: Place,
        desk: Desk,
        on_output: Callable[[int], None],
        wrap: Wrap,
    ) -> None:
        self._launch = launch
        self._place = place
        self._desk = desk
        self._on_output = on_output
        self._wrap = wrap
        self._open: dict[str, Terminal] = {}
        self._made = 0
        self._closing = asyncio.Event()
        self.left_behind = 0
        self.tampered: str | None = None
        """What a command did to its keeper."""

    @property
    def running(self) -> bool:
        """Whether a command runs."""
        return any(not terminal.ended.is_set() for terminal in self._open.values())

    def tail(self, terminal_id: str) -> str:
        """The end of a terminal's output; empty for one that is not there."""
        terminal = self._open.get(terminal_id)
        return terminal.text()[-TAIL:] if terminal else ""

    async def create(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None, limit: int | None
    ) -> str:
        """Start a command once it is allowed. Gives the terminal's id.

        A command without arguments is a line for a shell, as the agents send it: the agent's own shell, asked for as
        text and run in its tree. Raises RequestError where it is refused.
        """
        parts = self._place.inside_parts(cwd or ".")
        if parts is None:
            raise refused(f"{cwd} is outside of the working folder.")
        if sum(not terminal.ended.is_set() for terminal in self._open.values()) >= MOST_TERMINALS:
            raise refused(f"There are {MOST_TERMINALS} terminals already.")
        self._made += 1
        name = f"terminal-{self._made}"
        folder = self._place.tree.joinpath(*parts)
        said: tuple[str, ...] | str = (command, *args) if args else command
        more = {key: value for key, value in env.items() if self._may_add(key)}
        raw = {"command": list(said) if args else command, "cwd": str(folder), "env": more}
        answer = await self._desk.ask_to_run(PermissionRequest(name, "execute", command, said, (folder,), (), raw))
        if answer != "allow" or self._closing.is_set():
            raise refused("The command is not allowed. Do not try it again in another form.")
        argv = (command, *args) if args else ("/bin/sh", "-c", command)
        try:
            # A mark of its own: the end of a command sweeps up what carries its mark, and the agent lives on.
            process = await spawn(
                tuple(self._wrap(argv, folder)),
                attempt_id=f"{self._launch.attempt_id}.{self._made}",
                environment={**self._launch.environment, **more},
                cwd=folder,
            )
        except LaunchFailed as error:
            raise refused(str(error)) from error
        terminal = self._open[name] = Terminal(
            process, max(0, min(MOST_OUTPUT if limit is None else limit, MOST_OUTPUT))
        )
        terminal.follower = asyncio.ensure_future(self._follow(terminal))
        if self._closing.is_set():
            await self._end(terminal)
        return name

    def _may_add(self, variable: str) -> bool:
        """Whether an agent may set a variable: none that is there, and none that makes of a command another one."""
        return variable not in self._launch.environment and not LOADING.match(variable)

    def get(self, terminal_id: str) -> Terminal:
        """The terminal of that id. Raises RequestError where there is none."""
        if (terminal := self._open.get(terminal_id)) is None:
            raise RequestError.resource_not_found(terminal_id)
        return terminal

    async def kill(self, terminal_id: str) -> None:
        """End a command with everything it started; its output stays."""
        await self._end(self.get(terminal_id))

    async def release(self, terminal_id: str) -> None:
        """End a command and forget it."""
        await self.kill(terminal_id)
        self._open.pop(terminal_id, None)

    async def close(self) -> None:
        """End all; none can be made afterwards."""
        self._closing.set()
        await asyncio.gather(*(self._end(terminal) for terminal in self._open.values()))

    async def _end(self, terminal: Terminal) -> None:
        if not terminal.ended.is_set():
            await terminal.process.stop(AT_ONCE)
            await terminal.ended.wait()

    async def _follow(self, terminal: Terminal) -> None:
        await asyncio.gather(*(self._read(terminal, one) for one in (terminal.process.stdout, terminal.process.stderr)))
        terminal.exit_code = await terminal.process.wait()
        terminal.process.close()
        self.left_behind += terminal.process.left_behind
        self.tampered = self.tampered or terminal.process.tampered
        terminal.ended.set()

    async def _read(self, terminal: Terminal, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(65536):
            terminal.add(data)
            self._on_output(len(data))


def refused(reason: str) -> RequestError:
    """The error that tells an agent why its request is not served."""
    return RequestError.invalid_params({"details": reason})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
