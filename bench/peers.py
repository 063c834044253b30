"""The servers that are measured, behind one interface: the floor (the model itself), the baseline, and
Butler.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.client import Client, Response
from bench.process import HarnessError, Server, free_port
from bench.tools import write_tools, write_tools_yml

TOKEN = "bench-owner-token"
_TOKEN_EVENT = re.compile(rb"event: ?token")
_TOKEN_DELTA = re.compile(rb'"content": ?"[^"]')


@dataclass
class Turn:
    """What a client learns from one answer, whichever server gave it."""

    status: str
    thread_id: str
    reply: str
    seconds: float
    first_token: float | None = None
    actions: list[str] = field(default_factory=list)


class Peer(ABC):
    """A server that takes chat turns."""

    name: str

    def __init__(self, folder: Path, *, slow_tool: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data_dir = folder / "data"
        self.work_dir = folder / "work"
        self.data_dir.mkdir(exist_ok=True)
        self.work_dir.mkdir(exist_ok=True)
        write_tools(self.work_dir, slow=slow_tool)
        self._server: Server | None = None
        self._client: Client | None = None

    @property
    def server(self) -> Server:
        if self._server is None:
            raise HarnessError(f"{self.name} is not running")
        return self._server

    @property
    def client(self) -> Client:
        if self._client is None:
            raise HarnessError(f"{self.name} is not running")
        return self._client

    @abstractmethod
    def spawn(self) -> Server:
        """Start the process; don't wait."""

    async def start(self) -> float:
        """Start the server and wait until it answers; return the seconds that took."""
        self._server = self.spawn()
        self._client = Client(self._server.url, TOKEN)
        return await self._server.ready()

    def stop(self) -> None:
        self._close(kill=False)

    def kill(self) -> None:
        self._close(kill=True)

    def _close(self, *, kill: bool) -> None:
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            if kill:
                self._server.kill()
            else:
                self._server.stop()
        self._client = self._server = None

    @abstractmethod
    async def chat(self, text: str, thread_id: str | None = None, *, stream: bool = False) -> Turn:
        """One message; the turn that it makes."""

    @abstractmethod
    async def approve(self, turn: Turn) -> Turn:
        """Approve everything a parked turn waits for."""

    def _checked(self, response: Response) -> Response:
        if response.status >= 400:
            raise HarnessError(f"{self.name}: HTTP {response.status}: {response.body[:500]!r}\n{self.log_tail()}")
        return response

    def _outcome(self, response: Response, stream: bool) -> Any:
        self._checked(response)
        return response.events()[-1][1] if stream else response.json()

    def log_tail(self) -> str:
        """The end of what the server printed."""
        return "" if self._server is None else self._server.log_tail()

    async def settle(self) -> None:
        """Let the server finish what it does later, such as an index; most do nothing later."""
        return None

    def used_bytes(self) -> int:
        """Bytes of the database pages that hold something; free ones are used again."""
        return sum(map(_used, self.data_dir.rglob("*.db")))

    def disk_bytes(self) -> int:
        """Bytes of all files in the data directory; ask after a stop, so that the WAL is folded in."""
        return sum(path.stat().st_size for path in self.data_dir.rglob("*") if path.is_file())


class Floor(Peer):
    """The load generator calls the model itself: what no server can be faster than."""

    name = "floor"

    def __init__(self, model_url: str, folder: Path) -> None:
        super().__init__(folder)
        self._url = model_url

    def spawn(self) -> Server:
        raise HarnessError("the floor has no server of its own")

    async def start(self) -> float:
        self._client = Client(self._url)
        return 0.0

    async def chat(self, text: str, thread_id: str | None = None, *, stream: bool = False) -> Turn:
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "stream": stream}
        marker = _TOKEN_DELTA if stream else None
        response = self._checked(await self.client.request("POST", "/chat/completions", body, marker=marker))
        return Turn("done", "", "", response.seconds, response.first_token)

    async def approve(self, turn: Turn) -> Turn:
        raise HarnessError("the floor parks nothing")


class Baseline(Peer):
    """FastAPI, LangChain's agent and its middleware, the stock SQLite saver."""

    name = "baseline"

    def __init__(self, model_url: str, folder: Path, *, streaming: bool = True, slow_tool: bool = False) -> None:
        super().__init__(folder, slow_tool=slow_tool)
        self._environment = {
            "BASELINE_MODEL_URL": model_url,
            "BASELINE_DATA_DIR": str(self.data_dir),
            "BASELINE_WORK_DIR": str(self.work_dir),
            "BASELINE_STREAMING": "1" if streaming else "0",
        }

    def spawn(self) -> Server:
        port = free_port()
        environment = {**self._environment, "BASELINE_PORT": str(port)}
        url = f"http://127.0.0.1:{port}"
        return Server(["-m", "bench.baseline.server"], environment, url, self.folder / "server.log")

    async def chat(self, text: str, thread_id: str | None = None, *, stream: bool = False) -> Turn:
        return await self._turn("/chat", _chat_body(text, thread_id), stream)

    async def approve(self, turn: Turn) -> Turn:
        body = {"decisions": [{"type": "approve"} for _ in turn.actions]}
        return await self._turn(f"/threads/{turn.thread_id}/resume", body, stream=False)

    async def _turn(self, path: str, body: Any, stream: bool) -> Turn:
        response = await self.client.request("POST", path, body, marker=_TOKEN_EVENT if stream else None)
        outcome = self._outcome(response, stream)
        calls = [call for item in outcome["interrupts"] for call in item["value"]["action_requests"]]
        actions = [str(call["name"]) for call in calls]
        return _as_turn(outcome, response, actions)


class Butler(Peer):
    """Butler with its defaults and two declared tools."""

    name = "butler"

    def __init__(self, model_url: str, folder: Path, *, slow_tool: bool = False) -> None:
        super().__init__(folder, slow_tool=slow_tool)
        config = folder / "config"
        config.mkdir(exist_ok=True)
        write_tools_yml(config, self.work_dir)
        self.environment = {
            "BUTLER_CONFIG_DIR": str(config),
            "BUTLER_DATA_DIR": str(self.data_dir),
            "BUTLER_OWNER_TOKEN": TOKEN,
            "BUTLER_BASE_URL": model_url,
            "BUTLER_API_TOKEN": "bench",
            "BUTLER_MODEL": "scripted",
        }

    def spawn(self) -> Server:
        port = free_port()
        environment = {**self.environment, "BUTLER_PORT": str(port), "BUTLER_HOST": "127.0.0.1"}
        return Server(["server.py"], environment, f"http://127.0.0.1:{port}", self.folder / "server.log")

    async def chat(self, text: str, thread_id: str | None = None, *, stream: bool = False) -> Turn:
        return await self._turn("/chat", _chat_body(text, thread_id), stream)

    async def settle(self) -> None:
        self._checked(await self.client.request("GET", "/search?query=harbour"))

    async def approve(self, turn: Turn) -> Turn:
        decisions = [{"action_id": action, "decision": "approve"} for action in turn.actions]
        return await self._turn(f"/threads/{turn.thread_id}/resume", {"decisions": decisions}, stream=False)

    async def _turn(self, path: str, body: Any, stream: bool) -> Turn:
        response = await self.client.request("POST", path, body, marker=_TOKEN_EVENT if stream else None)
        outcome = self._outcome(response, stream)
        return _as_turn(outcome, response, [str(item["action_id"]) for item in outcome["approvals"]])


def _used(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def _chat_body(text: str, thread_id: str | None) -> dict[str, Any]:
    return {"message": text} if thread_id is None else {"message": text, "thread_id": thread_id}


def _as_turn(outcome: Any, response: Response, actions: list[str]) -> Turn:
    return Turn(
        status=str(outcome["status"]),
        thread_id=str(outcome["thread_id"]),
        reply=str(outcome["reply"]),
        seconds=response.seconds,
        first_token=response.first_token,
        actions=actions,
    )
