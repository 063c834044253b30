"""Programs of ours as real processes without the second that an interpreter needs to import them.

A process with everything imported (`mother`) forks once for each start. What comes of that is a process like any
other, with its own environment, directory, files and exit status; it can be killed, and it dies alone.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATUS_BYTES = 4


class Forked:
    """A started process, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, status: int, stdout: io.TextIOWrapper | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """The exit status if it has ended; -9 for SIGKILL."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            told = os.read(self._status, STATUS_BYTES)
            os.close(self._status)
            assert len(told) == STATUS_BYTES, "the mother of the processes has ended"
            self.returncode = int.from_bytes(told, "big", signed=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Mother:
    """The process that forks; one for each process of pytest."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.mother", str(theirs.fileno())],
                cwd=ROOT, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)},
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stdin: int, stdout: int, stderr: int
    ) -> tuple[int, int]:
        """Fork for ``server.py`` or ``-m MODULE`` with its arguments; gives the pid and where its status arrives."""
        status, theirs = os.pipe()
        job = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env)}).encode()
        try:
            socket.send_fds(self._socket, [len(job).to_bytes(4, "big")], [theirs, stdin, stdout, stderr])
            self._socket.sendall(job)
        finally:
            os.close(theirs)
        told = self._socket.recv(4, socket.MSG_WAITALL)
        assert len(told) == 4, "the mother of the processes has ended"
        return int.from_bytes(told, "big"), status

    def close(self) -> None:
        """End the mother; children that are left are killed."""
        self._socket.close()
        self._process.wait(60)


@functools.cache
def mother() -> Mother:
    """The mother of this process, begun when it is first needed."""
    return Mother()


def close_mother() -> None:
    """End the mother if there is one."""
    if mother.cache_info().currsize:
        mother().close()
        mother.cache_clear()


def popen(argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stderr: int) -> Forked:
    """Start a program whose standard output is read through a pipe."""
    ours, theirs = os.pipe()
    with open(os.devnull, "rb") as nothing:
        try:
            pid, status = mother().start(argv, cwd, env, stdin=nothing.fileno(), stdout=theirs, stderr=stderr)
        finally:
            os.close(theirs)
    return Forked(pid, status, io.TextIOWrapper(open(ours, "rb"), encoding="utf-8"))


def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], deadline: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does with captured text."""
    pipes = [os.pipe(), os.pipe()]
    with open(os.devnull, "rb") as nothing:
        try:
            pid, status = mother().start(argv, cwd, env, stdin=nothing.fileno(), stdout=pipes[0][1], stderr=pipes[1][1])
        finally:
            for _, theirs in pipes:
                os.close(theirs)
    process = Forked(pid, status, None)
    said: dict[int, bytearray] = {ours: bytearray() for ours, _ in pipes}
    open_ends, end = set(said), time.monotonic() + deadline
    try:
        while open_ends:
            ready, _, _ = select.select(list(open_ends), [], [], max(0.0, end - time.monotonic()))
            if not ready:
                process.kill()
                raise subprocess.TimeoutExpired(list(argv), deadline)
            for one in ready:
                piece = os.read(one, 65_536)
                said[one] += piece
                if not piece:
                    open_ends.discard(one)
        code = process.wait(max(0.0, end - time.monotonic()))
    finally:
        process.kill()
        process.wait(60)
        for one in said:
            os.close(one)
    out, err = (bytes(text).decode().replace("\r\n", "\n") for text in said.values())
    return subprocess.CompletedProcess(list(argv), code, out, err)
