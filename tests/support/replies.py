"""What the scripted model is to answer: one frozen value per reply, read from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

Json = dict[str, Any]
GENERATED = "<generated>"


@dataclass(frozen=True)
class Call:
    """One tool call; `arguments` is sent as it stands, so it may be malformed.

    `call_id` None leaves the id out; ``GENERATED`` gives a fresh one.
    """

    name: str
    arguments: str
    call_id: str | None = GENERATED


@dataclass(frozen=True)
class Reply:
    """One answer and everything that may go wrong with it.

    Args:
        text: the assistant's text; None with `calls` means no text, None without means the default text.
        tokens: how many tokens to send; the default text is made to that length.
        calls: tool calls of the same assistant message.
        pieces: over how many chunks each call's arguments are spread; the name too when `split_name`.
        interleave: send the pieces of several calls in turn instead of one call after the other.
        status: an HTTP status other than 200, with `retry_after` as its header, `error` as its text and `code`.
        error_event: an error object inside an otherwise sound stream, after `cut` tokens.
        cut: break the connection after so many tokens.
        delay: seconds before the first byte; `gap`: seconds between tokens.
        hold: name of a gate that must be released before the first byte.
        hold_after: pairs of (number of tokens, gate name): wait at the gate after so many tokens.
        hang: never answer.
        plain_json: answer a stream request with one JSON body.
        usage: (prompt, completion) tokens to report instead of the counted ones.
        no_role: leave the role out of the first chunk, as some servers do.
    """

    text: str | None = None
    tokens: int | None = None
    calls: tuple[Call, ...] = ()
    pieces: int = 3
    split_name: bool = False
    interleave: bool = False
    status: int = 200
    retry_after: str | None = None
    error: str = "scripted error"
    code: str | None = None
    error_event: bool = False
    cut: int | None = None
    delay: float = 0.0
    gap: float = 0.0
    hold: str | None = None
    hold_after: tuple[tuple[int, str], ...] = ()
    hang: bool = False
    plain_json: bool = False
    usage: tuple[int, int] | None = None
    finish: str | None = None
    no_role: bool = False

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Reply:
        """Read the control API's form; unknown keys are an error, so that no typo passes in silence."""
        known = {f.name for f in fields(Reply)}
        if unknown := set(value) - known:
            raise ValueError(f"unknown reply keys {sorted(unknown)!r}")
        given: Json = dict(value)
        given["calls"] = tuple(call_from_json(call) for call in value.get("calls", ()))
        if "hold_after" in given:
            given["hold_after"] = tuple((int(n), str(name)) for n, name in given["hold_after"])
        if given.get("usage") is not None:
            given["usage"] = tuple(given["usage"])
        return Reply(**given)


def call_from_json(value: Mapping[str, Any]) -> Call:
    """Read ``{name, arguments: object or text, id?: text or null}``."""
    arguments = value.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Call(str(value["name"]), text, value.get("id", GENERATED))


@dataclass
class Entry:
    """A scripted reply and when it applies: every given condition must hold; `times` 0 means always."""

    reply: Reply
    marker: str | None = None
    model: str | None = None
    purpose: str | None = None
    times: int = 1

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Entry:
        """Read a queue entry: the keys of a reply plus ``marker``, ``model``, ``purpose`` and ``times``."""
        rest = dict(value)
        conditions = {key: rest.pop(key) for key in ("marker", "model", "purpose", "times") if key in rest}
        return Entry(Reply.from_json(rest), **conditions)

    def applies(self, user_text: str, model: str, purpose: str | None) -> bool:
        """Say whether this entry answers such a request; hidden calls need their purpose named."""
        return (
            self.purpose == purpose
            and (self.marker is None or self.marker in user_text)
            and (self.model is None or self.model == model)
        )
