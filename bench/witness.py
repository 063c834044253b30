"""What a client was told by a server that keeps being killed, and whether the server stands by it.

An `Errand` is one message and what came of it. The `Witness` compares errands with the server after
each restart; every broken promise becomes one line in `broken`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.client import Client
from bench.process import HarnessError
from bench.tools import effects

_SETTLE_SECONDS = 30.0
_PATIENCE = 60
_FINISHED = ("done", "failed")
_STATUS_AFTER = {"approve": "approved", "reject": "rejected", "respond": "approved"}


@dataclass
class Errand:
    """One message of the client and everything it was told about it.

    Args:
        accepted: the server answered 200 or 202, so the message may never be lost.
        actions: the actions it was told to be parked, by id.
        tried: decisions sent, by action id; `decided` holds those that were acknowledged.
    """

    marker: str
    text: str
    tool: str | None
    thread_id: str | None = None
    accepted: bool = False
    status: str = ""
    reply: str = ""
    actions: list[str] = field(default_factory=list)
    tried: dict[str, str] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)


class Witness:
    """Checks the server against what it acknowledged."""

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []
        self._closed: set[str] = set()

    async def check(self, client: Client, errands: list[Errand]) -> None:
        """Wait until the threads of the errands rest, then hold the server to its word."""
        by_thread: dict[str, list[Errand]] = {}
        for errand in errands:
            if errand.thread_id is not None:
                by_thread.setdefault(errand.thread_id, []).append(errand)
        gate = asyncio.Semaphore(8)

        async def one(thread_id: str, mine: list[Errand]) -> None:
            async with gate:
                await self._check_thread(client, thread_id, mine)

        await asyncio.gather(*(one(thread_id, mine) for thread_id, mine in by_thread.items()))
        self._check_effects(errands)

    async def finish(self, client: Client) -> None:
        """Decide whatever is still pending anywhere; afterwards every thread must be idle."""
        for thread_id in await self._all_threads(client):
            deadline = time.monotonic() + _SETTLE_SECONDS
            while (status := await self._rest(client, thread_id)) == "parked" and time.monotonic() < deadline:
                for item in await pending(client, thread_id):
                    await self.close(client, item["action_id"], "reject")
            self.counts["threads"] += 1
            if status != "idle":
                self.broken.append(f"thread {thread_id} ends as {status}")

    async def close(self, client: Client, action_id: str, decision: str) -> None:
        """Decide an action on the witness's own account; no errand's decision is checked against it."""
        self._closed.add(action_id)
        if (status := await decide(client, action_id, decision)) != 200:
            self.broken.append(f"pending action {action_id} can't be decided: HTTP {status}")

    async def _check_thread(self, client: Client, thread_id: str, errands: list[Errand]) -> None:
        status = await self._rest(client, thread_id)
        if status == "running":
            self.broken.append(f"thread {thread_id} is stuck")
        open_actions = {item["action_id"]: item for item in await pending(client, thread_id)}
        items = (await get(client, f"/threads/{thread_id}/messages?limit=200"))["items"]
        said = Counter(item["text"] for item in items if item["role"] == "user")
        replies = {item["text"] for item in items if item["role"] == "assistant"}
        for errand in errands:
            times = said[errand.text]
            # A queued message becomes part of the transcript when its turn begins.
            waiting = errand.status == "queued" and status == "parked"
            if times > 1 or (errand.accepted and times == 0 and not waiting):
                self.broken.append(f"message {errand.marker} of {thread_id} is there {times} times")
            if errand.status == "done" and errand.reply not in replies:
                self.broken.append(f"the reply to {errand.marker} of {thread_id} is lost")
            for action_id in errand.actions:
                await self._check_action(client, errand, action_id, open_actions)
        self.counts["unknown outcomes listed"] += sum(item["execution"] == "unknown" for item in open_actions.values())

    async def _check_action(self, client: Client, errand: Errand, action_id: str, open_actions: dict[str, Any]) -> None:
        found = await client.get(f"/approvals/{action_id}")
        if found.status != 200:
            self.broken.append(f"parked action {action_id} is gone: HTTP {found.status}")
            return
        action = found.json()
        listed = action_id in open_actions
        if listed != (action["status"] == "pending"):
            self.broken.append(f"action {action_id} is {action['status']}, listed as pending: {listed}")
        if action_id not in self._closed:
            if action_id not in errand.tried and action["status"] != "pending":
                self.broken.append(f"action {action_id} is {action['status']}, though nobody decided it")
            if (decision := errand.decided.get(action_id)) is not None:
                self._check_decision(action, action_id, decision)
        if action["status"] == "pending" and action["execution"] not in ("none", "unknown"):
            self.broken.append(f"action {action_id} is pending and {action['execution']}")
        if action["status"] == "approved" and action["execution"] not in _FINISHED:
            self.broken.append(f"action {action_id} is approved and stays {action['execution']}")

    def _check_decision(self, action: Any, action_id: str, decision: str) -> None:
        # A crash between start and result puts an approved action back before a person, as unknown.
        asked_again = action["status"] == "pending" and action["execution"] == "unknown"
        if action["status"] != _STATUS_AFTER[decision] and not (asked_again and decision == "approve"):
            self.broken.append(f"action {action_id}: {decision} was acknowledged, it is {action['status']}")

    def _check_effects(self, errands: list[Errand]) -> None:
        happened = effects(self._work_dir)
        for errand in errands:
            times = len(happened.get(errand.marker, []))
            self.counts["effects"] += times
            approved = errand.tool == "note_line" or "approve" in errand.tried.values()
            if times > 1:
                self.broken.append(f"the effect of {errand.marker} happened {times} times")
            if times and not approved:
                self.broken.append(f"the effect of {errand.marker} happened without an approval")
            sure = errand.status == "done" and approved and "approve" in (*errand.decided.values(), _free(errand))
            if sure and times != 1:
                self.broken.append(f"{errand.marker} was acknowledged as done, its effect happened {times} times")
        ids = Counter(action_id for texts in happened.values() for action_id in texts)
        self.broken += [f"action {action_id} had {n} effects" for action_id, n in ids.items() if n > 1]

    async def _rest(self, client: Client, thread_id: str) -> str:
        """Wait until the thread is idle or parked; its status then."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            status = str((await get(client, f"/threads/{thread_id}"))["status"])
            if status != "running" or time.monotonic() > deadline:
                return status
            await asyncio.sleep(0.02)

    async def _all_threads(self, client: Client) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = await get(client, f"/threads?limit=100{cursor}")
            found += [item["thread_id"] for item in page["items"]]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"


def _free(errand: Errand) -> str:
    return "approve" if errand.tool == "note_line" else ""


async def get(client: Client, path: str) -> Any:
    """GET something that must be there; a server that asks for patience gets it."""
    response = await client.get(path)
    for _ in range(_PATIENCE):
        if response.status != 429:
            break
        await asyncio.sleep(1)
        response = await client.get(path)
    if response.status != 200:
        raise HarnessError(f"GET {path}: HTTP {response.status} {response.body[:300]!r}")
    return response.json()


async def pending(client: Client, thread_id: str) -> list[Any]:
    """The thread's pending approvals."""
    page = await get(client, f"/approvals?status=pending&thread_id={thread_id}&limit=100")
    return list(page["items"])


async def decide(client: Client, action_id: str, decision: str) -> int:
    """Send one decision; the HTTP status of the answer."""
    body = {"decision": decision, **({"response": "It was done."} if decision == "respond" else {})}
    return (await client.post(f"/approvals/{action_id}", body)).status
