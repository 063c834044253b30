"""Launching the scripted agent of `acp_agent.py`, and a supervisor that writes everything down."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from butler.maids.acp import AcpLauncher, Offer
from butler.maids.contract import (
    Finished,
    Launch,
    MaidEvent,
    Output,
    PermissionAnswer,
    PermissionRequest,
    Started,
    Stop,
    Task,
    ToolUse,
)
from butler.maids.launching.processes import Graces
from config.maid_types import Limits, MaidDefinition

AGENT = Path(__file__).with_name("acp_agent.py")
QUICK = Graces(stdin=2.0, terminate=0.2, kill=5.0)
ALL = Offer(files=True, terminals=True)
Json = dict[str, Any]

OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes-1", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no-1", "name": "No", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]


def ask(call: Json, options: list[Json] | None = None) -> Json:
    """The step in which the agent asks for a permission."""
    return {"ask": {"toolCall": {"toolCallId": "call-1", **call}, "options": OPTIONS if options is None else options}}


@dataclass
class Diary:
    """A watcher that allows, and stops where it is told to.

    `answer` may wait; `halt` gives a `Stop` for an event.
    """

    answer: PermissionAnswer | Callable[[PermissionRequest], Any] = "allow"
    halt: Callable[[MaidEvent], Stop | None] = lambda _: None
    events: list[MaidEvent] = field(default_factory=list)
    requests: list[PermissionRequest] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def event(self, event: MaidEvent) -> Stop | None:
        self.events.append(event)
        self.changed.set()
        return self.halt(event)

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        self.requests.append(request)
        self.changed.set()
        if callable(self.answer):
            said: PermissionAnswer = await self.answer(request)
            return said
        return self.answer

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something has been written down."""
        async with asyncio.timeout(30):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    @property
    def text(self) -> str:
        """All that the agent said."""
        return "".join(one.text for one in self.events if isinstance(one, Output) and one.stream == "message")

    @property
    def tools(self) -> list[ToolUse]:
        """Its tool calls, each time they were told."""
        return [one for one in self.events if isinstance(one, ToolUse)]

    @property
    def pid(self) -> int:
        """The agent's process."""
        return next(one.pid for one in self.events if isinstance(one, Started))


class Room:
    """An attempt's folders, and launches of scripted agents in them."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.home, self.temp = (folder / name for name in ("tree", "home", "temp"))
        for path in (self.tree, self.home, self.temp):
            path.mkdir()
        self.attempt_id = f"attempt-{os.getpid()}-{folder.name}"

    def launch(self, *steps: Json, limits: Limits | None = None, timeout: float = 60.0, **script: Any) -> Launch:
        """A launch of an agent that goes through `steps`; `script` holds its other options."""
        mode = script.pop("mode", None)
        words = json.dumps({"steps": steps, **script})
        # Braces would be placeholders.
        command = (sys.executable, "-S", "-I", str(AGENT), words.replace("{", "{{").replace("}", "}}"))
        maid = MaidDefinition(
            maid_id="fake",
            kind="acp",
            label="Fake",
            provider="none",
            model=None,
            role="code",
            command_template=command,
            timeout=timeout,
            limits=limits or Limits(),
            mode=mode,
        )
        prompt_file = self.temp / "prompt.txt"
        prompt_file.write_text("do it", encoding="utf-8")
        return Launch(
            attempt_id=self.attempt_id,
            maid=maid,
            task=Task("run-1", "implement", "do it", self.tree),
            prompt="do it",
            prompt_file=prompt_file,
            tree=self.tree,
            home=self.home,
            temp=self.temp,
            environment={"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.temp)},
        )

    async def run(
        self,
        *steps: Json,
        diary: Diary | None = None,
        offer: Offer | None = None,
        load: str | None = None,
        graces: Graces = QUICK,
        **options: Any,
    ) -> tuple[Finished, Diary]:
        """Run a scripted agent to its end; nothing of it may be left."""
        watcher = diary or Diary()
        launcher = AcpLauncher(offer=lambda _: offer or Offer(), load=lambda _: load, graces=graces)
        try:
            return await launcher.run(self.launch(*steps, **options), watcher), watcher
        finally:
            assert self.alive() == []

    def alive(self) -> list[int]:
        """The processes that carry the attempt's mark, also those of its terminals."""
        needle, found = f"\0MAID_RUN={self.attempt_id}", []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    said = "\0" + (entry / "environ").read_text(errors="replace")
                except OSError:
                    continue
                if needle in said:
                    found.append(int(entry.name))
        return found

    def received(self) -> list[Json]:
        """All that the agent was sent."""
        return [json.loads(line) for line in (self.home / "received.jsonl").read_text().splitlines()]

    def answers(self) -> list[Json]:
        """What its own requests were answered: results, and errors as they are."""
        return [said.get("result", said) for said in self.received() if "method" not in said]

    def said(self, method: str) -> list[Json]:
        """The parameters of the client's messages of that method."""
        return [said.get("params") or {} for said in self.received() if said.get("method") == method]


__all__ = ["ALL", "OPTIONS", "QUICK", "Diary", "Room", "ask"]
