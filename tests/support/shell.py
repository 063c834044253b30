"""The command line as another person, or with other variables, and at a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType

from tests.support import forks
from tests.support.server import ButlerServer


def command(*args: str) -> list[str]:
    """The argument list that runs one `butler` command."""
    return [sys.executable, "-m", "service.cli", *args]


def shell(server: ButlerServer, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one command on the server's directories, outside of any terminal."""
    return forks.run(["-m", "service.cli", *args], server.home, server.env | env, 60)


class Terminal:
    """One command on a pseudo-terminal: what it shows, and what a person types."""

    def __init__(self, server: ButlerServer, *args: str, columns: int = 100, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.shown = ""
        self.process = subprocess.Popen(
            command(*args), cwd=server.home, env=server.env | {"TERM": "xterm-256color"} | env,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._master)

    def until(self, text: str, after: str = "", seconds: float = 30.0) -> str:
        """Read until the terminal has shown the text (after that other text); gives everything so far."""
        end = time.monotonic() + seconds
        while text not in (self.shown.partition(after)[2] if after else self.shown):
            assert self._more(end), f"{text!r} was not shown:\n{self.shown}"
        return self.shown

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._master, text.encode() + b"\n")

    def ended(self, seconds: float = 30.0) -> int:
        """Read to the end; gives the exit status."""
        end = time.monotonic() + seconds
        while self._more(end):
            continue
        return self.process.wait(10)

    def _more(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            read = os.read(self._master, 65_536)
        except OSError:
            return False  # the other side is closed
        self.shown += read.decode(errors="replace")
        return bool(read)
