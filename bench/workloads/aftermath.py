"""What a client does with each thread after a crash of the server, and what it may expect to find."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any

from bench.peers import Baseline, Butler, Peer, Turn
from bench.process import HarnessError

_PATIENCE = 30.0
_STEPS = 12


class Aftermath(ABC):
    """Looks at threads after a restart and brings them to an end."""

    def __init__(self) -> None:
        self.asked_again: set[str] = set()

    @staticmethod
    def of(peer: Peer) -> Aftermath:
        """The kind that speaks to this peer."""
        if isinstance(peer, Butler):
            return _ButlerAftermath(peer)
        if isinstance(peer, Baseline):
            return _BaselineAftermath(peer)
        raise HarnessError(f"no aftermath for {peer.name!r}")

    @abstractmethod
    async def holds(self, answer: Turn, text: str) -> bool:
        """Whether what was acknowledged is there: the parked action, or the message and its reply."""

    async def settle(self, thread_id: str, text: str) -> bool:
        """Bring the turn to its end; False when the thread can't be finished."""
        deadline = time.monotonic() + _PATIENCE
        for _ in range(_STEPS):
            if await self._step(thread_id, text, deadline):
                return True
            if time.monotonic() > deadline:
                return False
        return False

    @abstractmethod
    async def _step(self, thread_id: str, text: str, deadline: float) -> bool:
        """Do the next thing for the thread; True when its turn is finished."""


class _BaselineAftermath(Aftermath):
    def __init__(self, peer: Baseline) -> None:
        super().__init__()
        self._peer = peer

    async def _state(self, thread_id: str) -> Any:
        response = await self._peer.client.get(f"/threads/{thread_id}")
        return response.json() if response.status == 200 else None

    async def holds(self, answer: Turn, text: str) -> bool:
        state = await self._state(answer.thread_id)
        if state is None:
            return False
        if answer.status == "parked":
            return bool(state["interrupts"])
        return bool(state["tasks"] == 0 and state["messages"][-1]["text"] == answer.reply)

    async def _step(self, thread_id: str, text: str, deadline: float) -> bool:
        state = await self._state(thread_id)
        if state is None or all(message["text"] != text for message in state["messages"]):
            await self._peer.chat(text, thread_id)
        elif state["interrupts"]:
            await self._peer.approve(Turn("parked", thread_id, "", 0.0, None, ["append_line"]))
        elif state["tasks"]:
            await self._peer.client.post(f"/threads/{thread_id}/continue", {})
        else:
            return True
        return False


class _ButlerAftermath(Aftermath):
    def __init__(self, peer: Butler) -> None:
        super().__init__()
        self._peer = peer

    async def _get(self, path: str) -> Any:
        response = await self._peer.client.get(path)
        if response.status != 200:
            raise HarnessError(f"GET {path}: HTTP {response.status} {response.body[:300]!r}")
        return response.json()

    async def holds(self, answer: Turn, text: str) -> bool:
        if answer.status == "parked":
            pending = await self._get(f"/approvals?status=pending&thread_id={answer.thread_id}")
            return {item["action_id"] for item in pending["items"]} == set(answer.actions)
        items = (await self._get(f"/threads/{answer.thread_id}/messages"))["items"]
        texts = [(item["role"], item["text"]) for item in items]
        return texts.count(("user", text)) == 1 and texts[-1] == ("assistant", answer.reply)

    async def _step(self, thread_id: str, text: str, deadline: float) -> bool:
        status = (await self._get(f"/threads/{thread_id}"))["status"]
        while status == "running" and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            status = (await self._get(f"/threads/{thread_id}"))["status"]
        if status == "parked":
            pending = await self._get(f"/approvals?status=pending&thread_id={thread_id}")
            for item in pending["items"]:
                await self._decide(thread_id, item)
            return False
        items = (await self._get(f"/threads/{thread_id}/messages"))["items"]
        if all(item["text"] != text for item in items):
            await self._peer.chat(text, thread_id)
            return False
        return bool(status == "idle")

    async def _decide(self, thread_id: str, item: Any) -> None:
        decision: dict[str, Any] = {"action_id": item["action_id"], "decision": "approve"}
        if item["execution"] == "unknown":
            self.asked_again.add(thread_id)
            decision |= {"decision": "respond", "response": "It was done, I looked."}
        response = await self._peer.client.post(f"/threads/{thread_id}/resume", {"decisions": [decision]})
        if response.status != 200:
            raise HarnessError(f"decision refused: HTTP {response.status} {response.body[:300]!r}")
