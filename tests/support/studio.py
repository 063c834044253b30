"""A real `langgraph dev` on the data and configuration of a Butler that is not running meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.support.polling import wait_until
from tests.support.server import OWNER_TOKEN, ROOT, ButlerServer

LANGGRAPH = ROOT / ".studio" / "bin" / "langgraph"
FLAGS = ("--no-browser", "--no-reload", "--n-jobs-per-worker", "10", "--host", "127.0.0.1", "--port")


class DevServer:
    """`langgraph dev` for one installation; `stop` ends its whole process group."""

    def __init__(self, butler: ButlerServer) -> None:
        self.butler = butler
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = butler.home / "studio.log"
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self, *more: str, **env: str) -> subprocess.Popen[bytes]:
        """Start the process without waiting. Its own files lie in the home of the installation, not in the project."""
        config = self.butler.home / "langgraph.json"
        if not config.is_symlink():
            config.symlink_to(ROOT / "langgraph.json")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(LANGGRAPH), "dev", *FLAGS, str(self.port), *more], cwd=self.butler.home,
                env=self._environment() | env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self.process

    def start(self, **env: str) -> DevServer:
        """Start the process and wait until it answers."""
        process = self.launch(**env)

        def ready() -> bool:
            assert process.poll() is None, self.told[-4000:]
            try:
                return httpx.get(f"{self.url}/ok", timeout=2).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(ready, "the dev server answers", 60)
        return self

    def stop(self) -> None:
        """Ask it to end, and end it."""
        if self.process is None:
            return
        group = self.process.pid
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(15)
        finally:
            with_none_left(group)
            self.process = None

    @property
    def told(self) -> str:
        """What it wrote."""
        return self.log.read_text(errors="replace")

    def client(self, token: str = OWNER_TOKEN) -> SyncLangGraphClient:
        """The official client."""
        return get_sync_client(url=self.url, api_key=token)

    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in self.butler.env.items() if name != "PYTHONPATH"}
        return {**own, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "NO_COLOR": "1"}


def with_none_left(group: int) -> None:
    """End what is left of a process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def say(text: Any) -> dict[str, Any]:
    """The input that chat clients send."""
    return {"messages": [{"type": "human", "content": text}]}


def answer(kind: str, **more: Any) -> Any:
    """A resume with one decision in LangChain's form."""
    return {"resume": {"decisions": [{"type": kind, **more}]}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
