"""The command line as another person, or with other variables, and at a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType

from tests.support import forks
from tests.support.forks import Forked, mother
from tests.support.server import ButlerServer

SECONDS = 60.0
"""On a busy machine everything may take long; nothing waits that long for something that is there."""

PROMPT = "\x1b[?2004h"
"""prompt_toolkit says so that it can be pasted into: somebody may type."""
QUESTION = "later? "
LEAVE = "\x04"


def command(*args: str) -> list[str]:
    """The argument list that runs one `butler` command."""
    return [sys.executable, "-m", "service.cli", *args]


def shell(server: ButlerServer, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one command on the server's directories, outside of any terminal."""
    return forks.run(["-m", "service.cli", *args], server.home, server.env | env, 60)


class Terminal:
    """One command on a pseudo-terminal: what it shows, and what a person types."""

    def __init__(self, server: ButlerServer, *args: str, columns: int = 100, lines: int = 40, **env: str) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(columns, lines)
        self.shown = ""
        variables = server.env | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"} | env
        pid, status = mother().start(
            ["-m", "service.cli", *args], server.home, variables,
            stdin=self._slave, stdout=self._slave, stderr=self._slave,
        )  # fmt: skip
        self.process = Forked(pid, status, None)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(10)
        for end in (self._master, self._slave):
            os.close(end)

    def resize(self, columns: int, lines: int = 40) -> None:
        """Give the window another size; whoever runs in it has to be told by a signal."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def echoes(self) -> bool:
        """Whether what is typed is shown by the terminal itself, as a shell needs it."""
        modes = termios.tcgetattr(self._slave)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)

    @property
    def plain(self) -> str:
        """What was shown so far, without colours and cursor movements."""
        return re.sub(r"\x1b(\[[\d;?]*[A-Za-z]|\][^\x07]*\x07)|\r", "", self.shown)

    def until(self, text: str, after: str = "", seconds: float = SECONDS) -> str:
        """Read until the terminal has shown the text (after that other text); gives everything so far."""
        end = time.monotonic() + seconds
        while text not in (self.shown.partition(after)[2] if after else self.shown):
            assert self._more(end), f"{text!r} was not shown:\n{self.shown}"
        return self.shown

    def then(self, text: str, seconds: float = SECONDS) -> str:
        """Read until this text is shown, and forget all up to it; gives that."""
        self.until(text, seconds=seconds)
        head, mark, self.shown = self.shown.partition(text)
        return head + mark

    def type(self, text: str) -> None:
        """Type a line."""
        self.press(text + "\n")

    def press(self, keys: str) -> None:
        """Type just these keys."""
        data = keys.encode()
        while data:
            readable, writable, _ = select.select([self._master], [self._master], [], 60)
            if readable:
                self._more(time.monotonic())
            elif writable:
                data = data[os.write(self._master, data[:1024]) :]

    def ended(self, seconds: float = SECONDS) -> int:
        """Read to the end; gives the exit status."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it runs after {seconds:g} s:\n{self.shown}"
            self._more(min(end, time.monotonic() + 0.1))
        while self._more(time.monotonic()):
            continue
        return self.process.wait(10)

    def _more(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        read = os.read(self._master, 65_536)
        self.shown += read.decode(errors="replace")
        return bool(read)


def begun_talk(server: ButlerServer) -> Terminal:
    """`butler chat` in a new thread, at its first prompt."""
    terminal = Terminal(server, "chat")
    terminal.until("Ctrl-D leaves")
    terminal.until(PROMPT, after="Ctrl-D leaves")
    return terminal
