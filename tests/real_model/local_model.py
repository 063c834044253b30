"""The process of the real model: start, freeze, kill, and look whether it is at work."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.polling import wait_until

MOST_TOKENS = 160


class LocalModel:
    """A model behind an OpenAI-compatible endpoint; keeps its address when it is started again.

    Without `weights`, a GGUF file, it is SmolLM2. `most_tokens` bounds an answer that asks for no bound of its own.
    """

    def __init__(self, home: Path, weights: Path | None = None, most_tokens: int = MOST_TOKENS) -> None:
        self._arguments = [str(most_tokens), *([str(weights)] if weights else [])]
        self._log = home / "model.log"
        self._begun = 0
        self._process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self._root = f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """What goes into BUTLER_BASE_URL."""
        return f"{self._root}/v1"

    def start(self) -> None:
        """Start the process and wait until the weights are loaded."""
        serve = Path(__file__).with_name("serve.py")
        with self._log.open("ab") as log:
            self._begun = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, str(serve), str(self._port), *self._arguments], stdout=log, stderr=log
            )
        wait_until(self._answers, "the model is loaded", 120)

    def freeze(self) -> None:
        """Let it be silent: connections are taken, and nothing comes."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def idle(self) -> bool:
        """Whether the server works on no answer, by its log.

        Asking it would disturb what is looked at: it notices a client that went away only after a second in which
        nobody else got a result.
        """
        log = self._log.read_bytes()[self._begun :]
        return log.count(b" launch_slot_") == log.count(b" release:")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, f"exit status {ended}; the end of its log:\n{self._log.read_text()[-2000:]}"
        try:
            return httpx.get(f"{self._root}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False
