"""Puts tool calls together out of the pieces that servers send, in all the ways they send them (A5)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from butler.types import ProposedCall


class _Call:
    """One call in the making."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.name = ""
        self.arguments: list[str] = []

    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.arguments)

    def is_whole(self) -> bool:
        """Say whether the arguments are a complete JSON object."""
        try:
            return isinstance(orjson.loads(self.text()), dict)
        except orjson.JSONDecodeError:
            return False

    def add(self, name: str, arguments: str) -> None:
        """Take a piece; servers either send a name in pieces or repeat all of it."""
        if name and name != self.name:
            self.name += name
        if arguments:
            self.arguments.append(arguments)


class CallPieces:
    """Collects pieces in the order of arrival; each goes to the call it belongs to."""

    def __init__(self) -> None:
        self.size = 0
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, pieces: Any) -> None:
        """Take the `tool_calls` of one delta or of one whole message."""
        if not isinstance(pieces, list):
            return
        fresh: set[int] = set()
        for piece in pieces:
            if isinstance(piece, Mapping):
                self._add(piece, fresh)

    def finish(self, *, cut_short: bool) -> tuple[ProposedCall, ...]:
        """Give the calls, each with an id of its own.

        Args:
            cut_short: the answer ended at its length limit, so missing arguments are not "none".
        """
        taken: set[str] = set()
        calls: list[ProposedCall] = []
        for call in self._calls:
            arguments = call.text()
            if not call.name and not arguments:
                continue
            if not arguments.strip() and not cut_short:
                arguments = "{}"
            call_id = call.call_id
            if not call_id or call_id in taken:
                call_id = f"call_{secrets.token_hex(12)}"
            taken.add(call_id)
            calls.append(ProposedCall(call_id, call.name, arguments))
        return tuple(calls)

    def _add(self, piece: Mapping[str, Any], fresh: set[int]) -> None:
        function = piece.get("function")
        given: Mapping[str, Any] = function if isinstance(function, Mapping) else {}
        name = given.get("name")
        name = name if isinstance(name, str) else ""
        arguments = _text_of(given.get("arguments"))
        call_id = piece.get("id")
        call_id = str(call_id) if isinstance(call_id, str | int) and call_id != "" else ""
        index = piece.get("index")
        if isinstance(index, int):
            call = self._at_index(index, call_id, name, arguments)
        else:
            call = self._without_index(call_id, name, fresh)
        fresh.add(id(call))
        call.call_id = call.call_id or call_id
        call.add(name, arguments)
        self.size += len(name) + len(arguments)

    def _at_index(self, index: int, call_id: str, name: str, arguments: str) -> _Call:
        call = self._by_index.get(index)
        if call is not None:
            # Some servers send every whole call under the same index.
            other = bool(call_id and call.call_id and call_id != call.call_id and name)
            repeated = bool(not call_id and name and arguments.strip() and call.is_whole())
            if not other and not repeated:
                return call
        self._by_index[index] = call = self._new(call_id)
        return call

    def _without_index(self, call_id: str, name: str, fresh: set[int]) -> _Call:
        if call_id:
            known = next((call for call in self._calls if call.call_id == call_id), None)
            if known is not None and id(known) not in fresh:
                return known
            return self._new(call_id)
        last = self._calls[-1] if self._calls else None
        # A name begins a call, unless the last one is still waiting for the rest of its own.
        if last is None or (name and (last.arguments or id(last) in fresh)):
            return self._new("")
        return last

    def _new(self, call_id: str) -> _Call:
        call = _Call(call_id)
        self._calls.append(call)
        return call


def _text_of(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else orjson.dumps(arguments, default=str).decode()
