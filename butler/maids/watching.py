"""The supervisor while a maid runs: it notes what happens, tells it, and rules on requests (D7, D9, D10)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from butler.approvals.actions import Action
from butler.maids.contract import (
    Diff,
    Finished,
    MaidEvent,
    Output,
    PermissionAnswer,
    PermissionRequest,
    ProviderTrouble,
    SessionOpened,
    Started,
    Stop,
    ToolUse,
)
from butler.maids.detect import detector_for
from butler.maids.events import Emit, tell
from butler.maids.means import Means
from butler.maids.observation import Observation
from butler.maids.permissions import Waking
from butler.maids.store import Attempt, MaidRun
from butler.maids.worktree import Workspace
from butler.people import Principal
from butler.types import Json
from config.maid_types import MaidDefinition

log = structlog.get_logger("butler.maids")

MOST_TOLD = 64 * 1024
"""Characters of output that go into the run's stream; the tails are in the evidence."""
MOST_PIECE = 2000
MOST_NOTED = 200
MOST_TAIL = 16 * 1024
MOST_CALLS = 20
TICK_SECONDS = 2.0
"""How often time alone is looked at."""


class Watch:
    """A `Watcher` for one attempt."""

    def __init__(
        self, means: Means, run: MaidRun, attempt: Attempt, maid: MaidDefinition, person: Principal, emit: Emit,
        waking: Waking, home: Path,
    ) -> None:  # fmt: skip
        self._means = means
        self._run = run
        self._attempt = attempt
        self._maid = maid
        self._person = person
        self._emit = emit
        self._waking = waking
        self._told = 0
        self._argv: tuple[str, ...] = ()
        self._permissions: list[Json] = []
        self._stop: Stop | None = None
        self._tree = Workspace.from_json(run.workspace or {}).tree
        temp = means.attempt_folder(run, attempt.number) / "temp"
        self._detector = detector_for(maid.limits, self._tree, (home, temp))
        self._stirred = asyncio.Event()
        self._began = time.monotonic()
        self._tails: dict[str, str] = {}
        self._calls: deque[str] = deque(maxlen=MOST_CALLS)
        self.session: Json | None = None
        """The session of an agent that has them, once it is open."""
        self.news = asyncio.Event()
        """Set when there is something that is not written down yet."""
        self.missing: tuple[str, ...] = ()
        """Variables that the maid's row wants and that are not set."""

    def event(self, event: MaidEvent) -> Stop | None:
        """Note an event; a `Stop` where the attempt must end."""
        if isinstance(event, Started):
            self._argv = event.argv
        if isinstance(event, Output):
            name = "stderr_tail" if event.stream == "stderr" else "stdout_tail"
            self._tails[name] = (self._tails.get(name, "") + event.text[-MOST_TAIL:])[-MOST_TAIL:]
        if isinstance(event, SessionOpened):
            self.session = {"id": event.session_id, "can_load": event.can_load, "loaded": event.loaded}
            self.session |= {"detail": event.detail} if event.detail else {}
        if isinstance(event, ToolUse):
            self._calls.append(f"{event.status}: {event.title[:200]}")
        self.news.set()
        self._tell(event)
        return self._stop or self._detector.event(event)

    def tick(self) -> Stop | None:
        """Look at the time; asked every few seconds."""
        return self._stop or self._detector.tick()

    def trouble(self, trouble: ProviderTrouble) -> None:
        """What the proxy saw between the agent and its provider."""
        self._end(self.event(trouble))

    def over_limit(self, why: str) -> None:
        """Requests or tokens of the attempt are used up."""
        self._end(Stop("policy_violation", why))

    async def interrupted(self) -> Stop:
        """Wait until the attempt has to end, also where its agent says nothing."""
        while (stop := self.tick()) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stirred.wait()
        return stop

    def _end(self, stop: Stop | None) -> None:
        self._stop = self._stop or stop
        if self._stop is not None:
            self._stirred.set()

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask policy, grants, ledger and inbox; while a person thinks, the maid waits."""
        number = self._attempt.number

        noted: Json = {
            "kind": request.kind, "title": request.title[:300], "command": request.command,
            "paths": [str(path) for path in request.paths][:20], "answer": "waiting", "action_id": "",
        }  # fmt: skip
        if len(self._permissions) < MOST_NOTED:
            self._permissions.append(noted)

        def waits(action: Action, shown: Json) -> None:
            noted["action_id"] = action.action_id
            self.news.set()
            self._emit("approval", shown)
            tell(self._emit, self._run, number, "waiting_approval", shown["title"])

        wait = self._maid.limits.permission_wait
        try:
            asked = await self._means.broker.ask(
                request, self._run, self._tree, self._person, waking=self._waking, wait=wait, tell=waits
            )
        except asyncio.CancelledError:
            noted["answer"] = "cancel"  # the attempt ends, or the agent took its request back
            raise
        noted |= {"answer": asked.answer, "action_id": asked.action_id}
        self.news.set()
        self._stop = self._stop or self._detector.answered(request, asked.answer)
        tell(self._emit, self._run, number, "permission", f"{asked.answer}: {request.title[:200]}")
        return asked.answer

    def unfinished(self) -> Json:
        """What there is to tell of an attempt that came to no end of its own."""
        calls = {"last_calls": list(self._calls)} if self._calls else {}
        return {**self.evidence(), **self._tails, **calls, "duration": time.monotonic() - self._began}

    def evidence(self) -> Json:
        """What was seen from here."""
        missing = {"missing_variables": list(self.missing)} if self.missing else {}
        session = {"session": self.session} if self.session is not None else {}
        permissions = [dict(one) for one in self._permissions]
        return {"argv": list(self._argv), "permissions": permissions, **missing, **session}

    def observation(self, finished: Finished, diff: Diff | None, outside: Sequence[str]) -> Observation:
        """All that is known of the attempt, its checks apart."""
        return self._detector.observation(finished, diff, outside)

    def _tell(self, event: MaidEvent) -> None:
        phase, text = _shown(event)
        if not text or self._told >= MOST_TOLD:
            return
        text = self._means.redactor.text(text[:MOST_PIECE])
        self._told += len(text)
        if self._told >= MOST_TOLD:
            text += "\n(What follows is not shown here; its end is kept with the attempt.)"
        tell(self._emit, self._run, self._attempt.number, phase, text)


def _shown(event: MaidEvent) -> tuple[str, Any]:
    """An event in a phase and a text."""
    match event:
        case Output():
            return "output", event.text
        case ToolUse():
            return "tool", f"{event.status}: {event.title}"
        case ProviderTrouble():
            return "provider", f"{event.status}: {event.detail}"
        case SessionOpened():
            if event.loaded:
                return "session", "It goes on with its earlier session."
            return ("session", f"A new session: {event.detail}") if event.detail else ("", "")
        case Started():
            return "", ""
