"""Starting, measuring and killing the servers under test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.client import Client, ConnectionLost

_PATIENCE = 60.0
ROOT = Path(__file__).resolve().parent.parent


class HarnessError(Exception):
    """The bench itself cannot go on; what it measures is not to blame."""


@dataclass(frozen=True)
class Cpu:
    """CPU seconds of a server process, and of the child processes it has waited for."""

    own: float
    children: float

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.own - other.own, self.children - other.children)


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server process on a port of its own."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], url: str, log: Path) -> None:
        self.url = url
        self._log = log
        self._started = time.perf_counter()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._psutil = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self, path: str = "/healthz") -> float:
        """Wait for the first 200 on `path`; return the seconds since the process was started."""
        client = Client(self.url)
        while time.perf_counter() - self._started < _PATIENCE:
            if self._process.poll() is not None:
                raise HarnessError(f"server ended with {self._process.returncode}:\n{self.log_tail()}")
            try:
                answered = (await client.get(path)).status == 200
            except ConnectionLost:
                answered = False
            if answered:
                client.close()
                return time.perf_counter() - self._started
            await asyncio.sleep(0.01)
        raise HarnessError(f"server not ready after {_PATIENCE:g} s:\n{self.log_tail()}")

    def cpu(self) -> Cpu:
        times = self._psutil.cpu_times()
        return Cpu(times.user + times.system, times.children_user + times.children_system)

    def cpu_by_thread(self) -> dict[str, float]:
        """CPU seconds of each of the process's threads, far finer than the ticks of `cpu` (Linux alone)."""
        spent: dict[str, float] = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
                spent[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
        return spent

    def rss_mb(self) -> float:
        return float(self._psutil.memory_info().rss) / 2**20

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that takes more than ten seconds."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
