"""A maid's permission requests on their way through policy, grants, ledger and inbox (D10).

Each is an action of the tool ``maid:MAID_ID:KIND``. An answer is used once: the claim and its receipt are one commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol, get_args

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.calls import Proposal
from butler.approvals.judge import Judge
from butler.approvals.show import approval
from butler.canonical import canonical_json
from butler.maids.contract import PermissionAnswer, PermissionRequest
from butler.maids.store import MaidRun
from butler.people import Principal
from butler.redact import Redactor
from butler.storage.database import Database
from butler.tools.registry import ToolRegistry
from butler.types import Json, ToolResult

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
SHELL_TEXT = re.compile(r"-[a-z]*c")
SHELL_SIGNS = re.compile(r"[^\w\s./:=@%+,'\"-]")
"""What makes of a line more than words, so that it is not taken apart."""
QUOTED_OR_BLANKS = re.compile(r"""('[^']*'|"(?:\\.|[^"\\])*")|[ \t]+""")
MOST_INPUT_CHARACTERS = 16_000
MOST_ASKED = 200
"""Questions of one task; an agent that asks more is told no."""
PASSING = frozenset({"call_id", "callId", "toolCallId", "turn_id", "turnId", "process_id", "started_at_ms"})
"""What agents write into a call's arguments that is another one each time, though the wish is the same."""
USED = "Allowed once."


class Waking(Protocol):
    """What wakes somebody who waits for a decision; it carries no answer."""

    @property
    def version(self) -> int:
        """Changes with every decision; read it before looking at the ledger."""

    async def changed_since(self, version: int, *, at_work: bool = False) -> None:
        """Wait until something was decided after `version` was read."""


@dataclass(frozen=True)
class Asked:
    """How a request was answered; `action_id` is empty where nothing was written down."""

    answer: PermissionAnswer
    action_id: str = ""


class PermissionBroker:
    """Rules on the requests of one task's maid."""

    def __init__(
        self, database: Database, judge: Judge, tools: ToolRegistry, redactor: Redactor, *, guarded: bool = True
    ) -> None:
        self._database = database
        self._judge = judge
        self._tools = tools
        self._redactor = redactor
        self._guarded = guarded

    async def ask(
        self, request: PermissionRequest, run: MaidRun, tree: Path, person: Principal, *, waking: Waking,
        wait: float, tell: Callable[[Action, Json], None],
    ) -> Asked:  # fmt: skip
        """Answer a request, waiting up to `wait` seconds for a person.

        `tell` hears of an action that waits, with the Approval to show.
        """
        tool = tool_name(run.maid_id or "", request.kind)
        args: Json = self._redactor.json(asked_args(request, tree))
        title = self._redactor.text(" ".join(request.title.split()))[:120] or tool
        deadline = asyncio.get_running_loop().time() + wait
        told = False
        while True:
            version = waking.version
            action = await self._database.write(partial(self._turn, run=run, tool=tool, args=args, title=title,
                                                        person=person))  # fmt: skip
            if action is None:
                return Asked("reject")
            if action.status != "pending":
                used = action.execution == "done" and action.result == USED
                return Asked("allow" if used else "reject", action.action_id)
            if not told:
                told = True
                tell(action, approval(action, self._tools, self._redactor))
            try:
                async with asyncio.timeout_at(deadline):
                    await waking.changed_since(version, at_work=True)
            except TimeoutError:
                return Asked("cancel", action.action_id)

    def _turn(
        self, connection: Connection, run: MaidRun, tool: str, args: Json, title: str, person: Principal
    ) -> Action | None:
        """The action of this request: one whose answer is unused, or still to come, else a new one; used if it may be.

        Returns: None when the maid has asked too often.
        """
        asked = [one for one in ledger.of_run(connection, run.run_id) if is_request_of(one, run)]
        asked.sort(key=lambda one: (len(one.call_id), one.call_id))
        same = [one for one in asked if one.tool == tool and one.args == args]
        action = same[-1] if same else None
        if action is None or (action.execution == "done" and action.result == USED):
            if len(asked) >= MOST_ASKED:
                return None
            spec = self._tools.get(tool)
            call = Proposal(f"{run.call_id}:p{len(asked) + 1}", 0, tool, args, title, spec.digest if spec else "")

            rule = partial(self._judge.on_proposal, thread_id=run.thread_id, person=person)
            [action] = ledger.propose(
                connection, [call], run_id=run.run_id, thread_id=run.thread_id, person=person, rule=rule,
                guarded=self._guarded, via="maid",
            )  # fmt: skip
        if action.status not in ("allowed", "approved") or action.execution != "none":
            return action
        claim = ledger.begin(connection, action.action_id, self._judge.at_execution, guarded=self._guarded)
        if not claim.won:
            return claim.action
        return ledger.finish(connection, action.action_id, claim.action.attempts, ToolResult(USED)) or claim.action


def tool_name(maid_id: str, kind: str) -> str:
    """The ledger's name for a kind of request of a maid; kinds nobody knows are ``other``."""
    return f"maid:{maid_id}:{kind if kind in KINDS else 'other'}"


def is_request_of(action: Action, run: MaidRun) -> bool:
    """Whether an action is a permission request of this task's maid."""
    return action.tool.startswith("maid:") and action.call_id.startswith(f"{run.call_id}:p")


def asked_args(request: PermissionRequest, tree: Path) -> Json:
    """A request as it is judged and shown: the same for the same wish, in whatever tree and words it comes."""
    args: Json = {}
    if request.command is not None:
        args["command"] = command_text(request.command)
    outside = set(request.outside)
    if request.paths:
        args["paths"] = [str(path) if path in outside else _within(path, tree) for path in request.paths]
    if outside:
        args["outside"] = sorted(map(str, outside))
    if kept := {key: value for key, value in request.raw_input.items() if key not in PASSING}:
        args["input"] = _bounded(kept, tree)
    if not args:
        args["title"] = request.title[:MOST_INPUT_CHARACTERS]
    return args


def command_text(command: str | Sequence[str]) -> str:
    """A command as rules see it: the same text however the agent shaped it, an argument list or a line for a shell."""
    if not isinstance(command, str):
        words = list(command)
        if not (len(words) == 3 and PurePath(words[0]).name in SHELLS and SHELL_TEXT.fullmatch(words[1])):
            return shlex.join(words)
        command = words[2]
    with suppress(ValueError):  # a quotation mark that is never closed
        if not SHELL_SIGNS.search(command):
            return shlex.join(shlex.split(command))
    return QUOTED_OR_BLANKS.sub(lambda found: found[1] or " ", command.strip())


def _within(path: Path, tree: Path) -> str:
    return os.path.relpath(path, tree) if path.is_relative_to(tree) else str(path)


def _bounded(raw: Json, tree: Path) -> Json:
    """The request as the agent wrote it, with the tree's own place left out; what is too long keeps its digest."""
    text = canonical_json(raw)
    if len(text) <= MOST_INPUT_CHARACTERS:
        kept: Json = _without(raw, str(tree))
        return kept
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"cut": text[:MOST_INPUT_CHARACTERS].replace(str(tree), "."), "characters": len(text), "sha256": digest}


def _without(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return value.replace(place, ".")
    if isinstance(value, dict):
        return {key: _without(item, place) for key, item in value.items()}
    return [_without(item, place) for item in value] if isinstance(value, list) else value
