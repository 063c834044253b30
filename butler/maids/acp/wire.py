"""The line between Butler and an agent: JSON lines over pipes, bounded, and stripped of what the SDK stumbles over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

from acp.schema import PermissionOption, ToolCallUpdate

MOST_FRAME = 16 * 1024 * 1024
"""Bytes of one message, and of what is buffered of a stream."""
MOST_OPEN = 200
"""Requests of the agent that wait for an answer at once; more come only from one that reads none."""
BREATH = 64
"""Messages after which other tasks get a turn, also when more are waiting."""
TOOL_KINDS = frozenset(
    kind for union in get_args(ToolCallUpdate.model_fields["kind"].annotation) for kind in get_args(union)
)
OPTION_KINDS = frozenset(get_args(PermissionOption.model_fields["kind"].annotation))
STATUSES = frozenset(
    status for union in get_args(ToolCallUpdate.model_fields["status"].annotation) for status in get_args(union)
)

Json = dict[str, Any]


class Wire:
    """A transport for the SDK's connection.

    Updates are taken here, as they came, and not given on: the SDK drops an update with a field it does not know.
    Notifications outside of the protocol are left out, where the SDK would log a traceback for each.

    Args:
        on_update: takes the update of a ``session/update`` and its session's id, in order.
        on_bytes: told how many bytes came, before anything else.
        on_overflow: told what is too much, `MOST_FRAME` or `MOST_OPEN`; nothing more is read then.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_update: Callable[[Json, str], None],
        on_bytes: Callable[[int], None],
        on_overflow: Callable[[str], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_update = on_update
        self._on_bytes = on_bytes
        self._on_overflow = on_overflow
        self._sending = asyncio.Lock()
        self._count = 0
        self._open = 0

    async def send(self, message: Json) -> None:
        """Write one message. A request to an agent that is gone raises ConnectionError; an answer is dropped."""
        data = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            async with self._sending:
                if self._writer.is_closing():
                    raise ConnectionError("The agent's input is closed.")
                self._writer.write(data)
                await self._writer.drain()
        except OSError as error:
            if "method" in message:
                raise ConnectionError(str(error)) from error
        finally:
            self._open -= "method" not in message

    async def receive(self) -> Json | None:
        """Give the next message that is for the SDK; None at the end."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
                if not line:
                    return None
            except asyncio.LimitOverrunError:
                self._on_overflow(f"a message of more than {MOST_FRAME} bytes")
                return None
            self._on_bytes(len(line))
            self._count += 1
            if self._count % BREATH == 0:
                await asyncio.sleep(0)
            message = parsed(line)
            if message is None:
                continue
            if message.get("method") == "session/update":
                params = message.get("params")
                params = params if isinstance(params, dict) else {}
                update = params.get("update")
                if isinstance(update, dict):
                    self._on_update(update, str(params.get("sessionId", "")))
            elif "id" in message:
                self._open += "method" in message
                if self._open > MOST_OPEN:
                    self._on_overflow(f"more than {MOST_OPEN} requests without reading an answer")
                    return None
                return message

    async def close(self) -> None:
        """Leave the pipes to whoever ends the process."""


def parsed(line: bytes) -> Json | None:
    """Read a line, made safe for the SDK; None for what is no message of JSON-RPC."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("id", 0), str | int):
        return None
    if "method" in message:
        if not isinstance(message["method"], str):
            return None
        if message["method"] == "session/request_permission":
            _tolerate(message.get("params"))
    elif "error" in message:
        message["error"] = _error(message["error"])
    return message


def _tolerate(params: Any) -> None:
    """Leave out of a permission request what is newer than our SDK, so that it is answered and not refused."""
    if not isinstance(params, dict):
        return
    call = params.get("toolCall")
    if isinstance(call, dict):
        for key, known in (("kind", TOOL_KINDS), ("status", STATUSES)):
            if str(call.get(key)) not in known:
                call.pop(key, None)
        if not isinstance(call.get("toolCallId"), str):
            call["toolCallId"] = ""
    options = params.get("options")
    if isinstance(options, list):
        params["options"] = [one for one in options if isinstance(one, dict) and str(one.get("kind")) in OPTION_KINDS]


def _error(said: Any) -> Json:
    error: Mapping[str, Any] = said if isinstance(said, dict) else {"message": str(said)}
    code = error.get("code")
    return {
        "code": code if isinstance(code, int) else -32603,
        "message": str(error.get("message") or "Error"),
        "data": error.get("data"),
    }
