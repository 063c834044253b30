"""Lets a server kill itself at a named point in the middle of a talk, and starts it again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import httpx

from tests.support.client import Client, Json
from tests.support.polling import wait_until
from tests.support.server import ButlerServer

POINTS = (
    "accept_before_commit",
    "accept_after_commit",
    "park_before",
    "park_after",
    "decision_before",
    "decision_after",
    "resume_before",
    "resume_after",
    "started_before",
    "started_after",
    "effect_after",
    "done_after",
    "finish_before",
    "finish_after",
)


def crash(server: ButlerServer, point: str, talk: Callable[[Client], Any]) -> None:
    """Start the server so that it dies at the point, talk until it does, and check that it did."""
    server.start(BUTLER_CRASH_AT=point)
    with contextlib.suppress(httpx.TransportError):
        talk(server.client())
    assert server.died() == -9, f"{point} was not met"


def settle(client: Client, thread_id: str, unknown: Json) -> list[str]:
    """Bring the thread to idle: approve what is pending, and answer `unknown` to what a crash left open.

    Gives the execution of each action that had to be asked, in order.
    """
    asked: list[str] = []
    for _ in range(5):
        status = client.get(f"/threads/{thread_id}")["status"]
        if status == "running":
            status = _when_settled(client, thread_id)
        if status == "idle":
            return asked
        for action in client.approvals(thread_id):
            asked.append(action["execution"])
            answer = unknown if action["execution"] == "unknown" else {"decision": "approve"}
            client.decided(thread_id, {"action_id": action["action_id"], **answer})
    raise AssertionError(f"the thread never came to rest; asked so far: {asked!r}")


def _when_settled(client: Client, thread_id: str) -> str:
    def probe() -> str | None:
        status: str = client.get(f"/threads/{thread_id}")["status"]
        return None if status == "running" else status

    return wait_until(probe, f"thread {thread_id} is idle or parked", 30)
