"""A real Butler server process with its own data and configuration, to start, stop, kill and start again."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from tests.support import forks
from tests.support.client import Client
from tests.support.forks import Forked
from tests.support.workshop import Workshop

ROOT = Path(__file__).resolve().parents[2]
OWNER_TOKEN = "owner-token-for-tests"
MODEL_TOKEN = "model-token"
READY = "Butler is ready at "


class ButlerServer:
    """One installation: its directories outlive the processes started on them.

    Its processes are forked from one that has imported all of it (`tests.support.forks`); with `own_interpreter`
    they are ``python server.py`` and ``python -m service.cli``.

    Args:
        home: an empty directory for data, configuration and output.
        model_url: base URL of the model; None leaves the server without one.
        env: further environment, stronger than the defaults here.
    """

    def __init__(self, home: Path, model_url: str | None, env: dict[str, str] | None = None) -> None:
        self.home = home
        self.data = home / "data"
        self.config = home / "config"
        self.config.mkdir(parents=True, exist_ok=True)
        self.workshop = Workshop(self.config)
        self.env = self._environment(model_url) | (env or {})
        self.url = ""
        self.own_interpreter = False
        self.process: subprocess.Popen[str] | Forked | None = None
        self.stdout: list[str] = []
        self._clients: list[Client] = []

    def _environment(self, model_url: str | None) -> dict[str, str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "BUTLER_PORT": "0",
            "BUTLER_DATA_DIR": str(self.data),
            "BUTLER_CONFIG_DIR": str(self.config),
            "BUTLER_OWNER_TOKEN": OWNER_TOKEN,
        }
        if model_url:
            env |= {"BUTLER_BASE_URL": model_url, "BUTLER_API_TOKEN": MODEL_TOKEN, "BUTLER_MODEL": "scripted"}
        return env

    @property
    def stderr(self) -> str:
        """What all processes so far wrote to standard error."""
        path = self.home / "stderr.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def tail(self) -> str:
        """The end of standard error, for a failure's report."""
        return self.stderr[-4000:]

    def launch(self, **env: str) -> subprocess.Popen[str] | Forked:
        """Start the process without waiting until it is ready."""
        assert self.process is None or self.process.poll() is not None, "the server runs already"
        with (self.home / "stderr.log").open("a") as errors:
            if not self.own_interpreter:
                self.process = forks.popen([str(ROOT / "server.py")], self.home, self.env | env, stderr=errors.fileno())
                return self.process
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "server.py")],
                cwd=self.home,
                env=self.env | env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        return self.process

    def start(self, **env: str) -> ButlerServer:
        """Start the process and wait for its ready line."""
        deadline = 60.0
        process = self.launch(**env)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._drain, args=(process, lines), daemon=True).start()
        end = time.monotonic() + deadline
        while True:
            try:
                line = lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise AssertionError(f"not ready after {deadline:g} s\n{self.tail}") from None
            if line is None:
                code = process.wait(60)
                raise AssertionError(f"exit status {code} before ready\n{self.tail}")
            if line.startswith(READY):
                self.url = line.removeprefix(READY).strip().rstrip("/")
                return self

    def _drain(self, process: subprocess.Popen[str] | Forked, lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.stdout.append(line)
                lines.put(line)
        lines.put(None)

    def stop(self, deadline: float = 20.0) -> int:
        """SIGTERM, and wait; gives the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"alive {deadline:g} s after SIGTERM\n{self.tail}") from None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait(60)

    def died(self, deadline: float = 30.0) -> int:
        """Wait until the process ends by itself; gives the exit status (-9 for its own SIGKILL)."""
        assert self.process is not None
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still alive after {deadline:g} s\n{self.tail}") from None

    def restart(self, **env: str) -> ButlerServer:
        """Kill what runs and start on the same directories."""
        self.kill()
        return self.start(**env)

    def client(self, token: str | None = OWNER_TOKEN) -> Client:
        """A client with that token (the owner's by default), closed with the server."""
        client = Client(lambda: self.url, token)
        self._clients.append(client)
        return client

    def cli(self, *args: str, deadline: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run ``python -m service.cli`` on the same directories."""
        if not self.own_interpreter:
            return forks.run(["-m", "service.cli", *args], self.home, self.env, deadline)
        return subprocess.run(
            [sys.executable, "-m", "service.cli", *args],
            cwd=self.home,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=deadline,
        )

    def user_add(self, name: str, role: str) -> Client:
        """Make a user through the command line; gives a client with the printed token."""
        done = self.cli("user", "add", name, "--role", role)
        assert done.returncode == 0, done.stderr
        return self.client(done.stdout.rstrip().splitlines()[-1].strip())

    def close(self) -> None:
        """End the process and the clients."""
        self.kill()
        for client in self._clients:
            client.close()


class MakeButler(Protocol):
    """The `make_butler` fixture: a fresh installation, not started; keywords are environment variables."""

    def __call__(self, *, with_model: bool = True, **env: str) -> ButlerServer: ...
