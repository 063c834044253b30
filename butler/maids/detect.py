"""Watching an attempt while it runs: loops, hangs, floods of calls, forbidden acts, steps out of the tree (D7)."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from butler.canonical import canonical_json
from butler.maids import signs
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
from butler.maids.echoes import Echoes, state_of_tree
from butler.maids.forbidden import command_of, forbidden_command
from butler.maids.observation import Observation
from butler.maids.repetition import Repetition
from butler.nesting import nested_too_deeply
from butler.types import Json
from config.maid_types import Limits

KEPT_CALLS = 256
KEPT_REFUSALS = 64
KEPT_TROUBLE = 64
TEXT = 16 * 1024
TROUBLE_IN_A_ROW = 12
TROUBLE_SECONDS = 60.0
"""How long nothing but trouble may come: some agents wait longer each time, and don't say a word meanwhile."""
LONGEST_RETRY_AFTER = 120.0
"""Seconds; what a provider asks beyond it is not waited for inside of an attempt."""
_WRITES = frozenset({"edit", "delete", "move", "write", "create"})
_CONTENT = frozenset({"content", "file_text", "new_str", "new_string", "newText", "edits", "diff", "patch"})


@dataclass
class _Call:
    """A tool call as it was last told, cut to what is needed."""

    tool: ToolUse
    digest: str
    since: float
    settled: bool
    told: bool


class Detector:
    """Is fed with all events of one attempt in order and says when it has to stop; its memory is bounded.

    Args:
        tree: the project's working tree.
        also_allowed: folders outside of it that may be written to: the attempt's own home and temp.
        tool_calls: how many calls in all.
        equal_calls: how many equal ones in a row.
        equal_lines: how often a line of output, or a few together, may be repeated while nothing else happens.
        hung_after: seconds that one tool call may run without a word.
        clock: seconds that only go up.
    """

    def __init__(
        self,
        tree: Path,
        *,
        also_allowed: Sequence[Path] = (),
        tool_calls: int = 200,
        equal_calls: int = 4,
        equal_lines: int = 200,
        hung_after: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = tuple(path.resolve() for path in (tree, *also_allowed))
        self._tree = tree.resolve()
        self._most = tool_calls
        self._equal = max(2, equal_calls)
        self._hung_after = hung_after
        self._clock = clock
        self._looked = clock()
        self._calls: OrderedDict[str, _Call] = OrderedDict()
        self._count = 0
        self._spoken = ""
        self._before = ""
        self._repetition = Repetition()
        look = partial(state_of_tree, self._tree)
        self._echoes = {stream: Echoes(max(2, equal_lines), look, clock) for stream in ("stdout", "stderr")}
        self._trouble: list[ProviderTrouble] = []
        self._in_a_row = 0
        self._silent_since: float | None = None
        self._answers = 0
        self._since_trouble = ""
        self._refused: OrderedDict[str, PermissionRequest] = OrderedDict()
        self._stop: Stop | None = None

    def event(self, event: MaidEvent) -> Stop | None:
        """Take note of the next event; once it has said stop, it stays with it and looks at nothing more."""
        if self._stop is not None:
            return self._stop
        match event:
            case Output():
                found = self._output(event)
            case ToolUse():
                found = self._tool(event)
            case ProviderTrouble():
                found = self._provider(event)
            case Started() | SessionOpened():
                found = None
        return self._first(found) or self._look_at_the_time()

    def _look_at_the_time(self) -> Stop | None:
        now = self._clock()
        if now - self._looked < 1.0:
            return None
        self._looked = now
        return self.tick(now)

    def tick(self, now: float | None = None) -> Stop | None:
        """Look at the time; may be called also when nothing happens."""
        moment = self._clock() if now is None else now
        for call in self._calls.values():
            if call.tool.status == "in_progress" and moment - call.since > self._hung_after:
                detail = f"The tool call {call.tool.title!r} ran for more than {self._hung_after:g} s without a word."
                return self._first(Stop("hung_foreground", detail))
        return self._stop

    def refused(self, request: PermissionRequest) -> Stop | None:
        """Note that a permission request was refused; the second equal one ends the attempt."""
        paths = sorted(map(str, request.paths))[:100]
        key = _digest([request.kind, request.command or "", paths, _plain(request.raw_input)])
        is_again = key in self._refused
        self._refused[key] = _cut_request(request)
        while len(self._refused) > KEPT_REFUSALS:
            self._refused.popitem(last=False)
        if is_again:
            return self._first(Stop("policy_violation", f"It asked again for what was refused: {request.title[:200]}."))
        return self._stop

    def answered(self, request: PermissionRequest, answer: PermissionAnswer) -> Stop | None:
        """Note how a permission request was answered."""
        return self.refused(request) if answer == "reject" else self._stop

    def observation(self, finished: Finished, diff: Diff | None, outside: Sequence[str] = ()) -> Observation:
        """All that is known of the attempt once it is over, its checks apart."""
        went_on = bool(self._since_trouble.strip()) and signs.provider_error(self._since_trouble) is None
        return Observation(
            finished,
            tools=tuple(call.tool for call in self._calls.values()),
            texts=tuple(text for text in (self._before, self._spoken) if text.strip()),
            trouble=tuple(self._trouble),
            recovered=bool(self._trouble) and (self._in_a_row == 0 or went_on),
            diff=diff,
            outside=tuple(outside),
            refusals=tuple(self._refused.values()),
        )

    def _first(self, found: Stop | None) -> Stop | None:
        self._stop = self._stop or found
        return self._stop

    def _output(self, output: Output) -> Stop | None:
        if output.stream == "message":
            self._spoken = (self._spoken + output.text[-TEXT:])[-TEXT:]
        if output.stream != "stderr":
            self._silent_since = None
        if self._in_a_row and output.stream in ("message", "stdout"):
            self._since_trouble = (self._since_trouble + output.text[-TEXT:])[-TEXT:]
        if output.stream in ("message", "thought") and (again := self._repetition.add(output.text)):
            return Stop("loop_detected", f"It said the same again and again: {again[:200]!r}.")
        if output.stream in self._echoes and (lines := self._echoes[output.stream].add(output.text)):
            return Stop("loop_detected", f"It printed {lines}.")
        return None

    def _provider(self, trouble: ProviderTrouble) -> Stop | None:
        self._trouble.append(replace(trouble, detail=trouble.detail[:1_000]))
        del self._trouble[:-KEPT_TROUBLE]
        self._in_a_row += 1
        self._since_trouble = ""
        now = self._clock()
        if self._silent_since is None or trouble.answers > self._answers:
            # Many agents say nothing until they are done: an answer between two troubles is a sign of life too.
            self._silent_since = now
        self._answers = trouble.answers
        if trouble.retry_after is not None and trouble.retry_after > LONGEST_RETRY_AFTER:
            return Stop("provider_error", f"The provider asks to wait {trouble.retry_after:g} s.")
        if self._in_a_row >= TROUBLE_IN_A_ROW:
            return Stop("provider_error", f"The provider failed {self._in_a_row} times in a row.")
        if now - self._silent_since >= TROUBLE_SECONDS:
            return Stop("provider_error", f"The provider has failed for {now - self._silent_since:.0f} s.")
        return None

    def _tool(self, event: ToolUse) -> Stop | None:
        known = self._calls.get(event.call_id)
        tool = _cut(event)
        raw = event.raw_input or {}
        told = bool(raw) or (known is not None and known.told)
        if known is not None and not raw:
            tool = replace(tool, raw_input=known.tool.raw_input)
        over = event.status in ("completed", "failed")
        if raw:
            digest = _digest([event.kind, event.title[:2_000], _plain(raw)])
        elif known is not None and told:
            digest = known.digest
        else:
            # Arguments that nobody told: only the same result makes two calls equal.
            digest = _digest([event.kind, event.title[:2_000], event.output[-2_000:]])
        is_quiet = known is not None and known.tool.status == "in_progress" and known.tool.output == tool.output
        since = known.since if known is not None and is_quiet else self._clock()
        self._calls[event.call_id] = _Call(tool, digest, since, told or over, told)
        if known is None:
            self._in_a_row = 0
            self._silent_since = None
            self._count += 1
            if self._spoken.strip():
                self._before, self._spoken = self._spoken, ""
            while len(self._calls) > max(KEPT_CALLS, self._equal):
                self._calls.popitem(last=False)
        return self._judge(event, tool)

    def _judge(self, event: ToolUse, tool: ToolUse) -> Stop | None:
        if self._count > self._most:
            return Stop("loop_detected", f"It made more than {self._most} tool calls.")
        if event.status in ("in_progress", "completed"):
            # One that only waits may still be refused; one that failed did nothing.
            command = command_of(tool.raw_input)
            act = forbidden_command(command) if command is not None else None
            if act is not None:
                return Stop("forbidden_action", f"It did what is forbidden: {act}.")
            if outside := self._outside(event):
                return Stop("wrong_directory", f"It wrote outside of the project's folder: {outside}.")
        return self._looping()

    def _looping(self) -> Stop | None:
        if len(self._calls) < self._equal:
            return None
        last = [self._calls[key] for key in _last(self._calls, self._equal)]
        if all(call.settled and call.digest == last[0].digest for call in last):
            detail = f"It made the same tool call {self._equal} times in a row: {last[0].tool.title[:200]!r}."
            return Stop("loop_detected", detail)
        return None

    def _outside(self, event: ToolUse) -> Path | None:
        raw = event.raw_input or {}
        if event.kind not in _WRITES and not (_CONTENT & raw.keys()):
            return None
        places = list(event.locations[:200])
        for key in ("path", "file_path", "filePath", "abs_path"):
            value = raw.get(key)
            if isinstance(value, str) and value and "\0" not in value and len(value) < 4_096:
                places.append((self._tree / value).resolve())
        return next((place for place in places if not any(place.is_relative_to(root) for root in self._roots)), None)


def detector_for(limits: Limits, tree: Path, also_allowed: Sequence[Path] = ()) -> Detector:
    """The detector of one attempt by the limits of its maid; a tool call may be as silent as the maid itself."""
    return Detector(
        tree,
        also_allowed=also_allowed,
        tool_calls=limits.tool_calls,
        equal_calls=limits.equal_calls,
        equal_lines=limits.equal_lines,
        hung_after=limits.silence,
    )


def _last(calls: OrderedDict[str, _Call], count: int) -> list[str]:
    backwards = reversed(calls)
    return [next(backwards) for _ in range(count)]


def _digest(value: object) -> str:
    try:
        text = canonical_json(value)
    except (TypeError, ValueError):
        text = repr(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(raw: object) -> object:
    """Arguments that can be written as JSON; those that nest too deeply for it only by their size."""
    return raw if not nested_too_deeply(raw) else "nested too deeply"


def _cut(tool: ToolUse) -> ToolUse:
    command = command_of(tool.raw_input or {})
    return replace(
        tool,
        title=tool.title[:500],
        locations=tool.locations[:20],
        raw_input=_bounded_command(command),
        output=tool.output[-4_096:],
    )


def _bounded_command(command: str | tuple[str, ...] | None) -> Json:
    """Of a call's arguments only the command is looked at later."""
    if command is None or isinstance(command, str):
        return {"command": command[:4_096]} if command else {}
    words, room = [], 4_096
    for word in command:
        room -= len(word) + 1
        if room < 0:
            break
        words.append(word)
    return {"command": words}


def _cut_request(request: PermissionRequest) -> PermissionRequest:
    command = request.command
    short = command[:4_096] if isinstance(command, str) else command and tuple(word[:500] for word in command[:50])
    return replace(
        request,
        title=request.title[:500],
        command=short,
        paths=request.paths[:50],
        outside=request.outside[:50],
        raw_input={},
    )
