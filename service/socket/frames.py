"""Frames of the socket: strict ones from outside, plain JSON to outside (http-api, *Agents and the socket*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError

from butler.errors import ButlerError
from butler.types import Json
from service.http.bodies import MOST_MESSAGE_CHARACTERS, Strict, Text, Word, read_json
from service.http.faults import sentence_of

MOST_FRAME_BYTES = 4 * 1024 * 1024
ANSWERS_ONLY = ("CHAT_STREAM", "CHAT_STREAM_END", "AUTH_REQUEST", "AUTH_STATUS_UPDATE", "ERROR")
"""Types that only Butler sends."""
NAMES = ("thread_id", "action_id", "correlation_id")
BUTLER_ID = "butler"
Id = int | Annotated[str, Field(max_length=200)]
Small = Annotated[str, Field(max_length=2000)]


class Seed(Strict):
    """What any frame may carry. Who the sender says it is counts for nothing: the token says who it is."""

    type: str
    sender_id: Id | None = None
    sender_name: Small | None = None
    sender_role: Small | None = None
    target_id: Id | None = None
    timestamp: Small | None = None
    stream_id: Small | None = None
    action_id: Word | None = None
    command: Text | None = None
    reasoning: Text | None = None
    thread_id: Word | None = None
    correlation_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    seq: int | None = None


class AuthFrame(Seed):
    """``AUTH``: who it is, and for an agent what it can do."""

    token: Annotated[str, Field(max_length=1000)] | None = None
    capabilities: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=50)] | None = None


class ChatFrame(Seed):
    """``CHAT``: a person's message, or an agent's answer or report."""

    payload: Any = None


class Verdict(Strict):
    """What an ``AUTH_RESPONSE`` says, at the top level or inside `payload`; there the seed's other fields may stand."""

    type: str | None = None
    sender_id: Id | None = None
    sender_name: Small | None = None
    sender_role: Small | None = None
    target_id: Id | None = None
    timestamp: Small | None = None
    stream_id: Small | None = None
    command: Text | None = None
    thread_id: Word | None = None
    action_id: Word | None = None
    # None is not among its types: `approved: null` is an error like "true" and 1.
    approved: bool = Field(default=False)
    reasoning: Text | None = None
    reason: Text | None = None
    fingerprint: Annotated[str, Field(max_length=100)] | None = None


class AuthResponseFrame(Seed):
    """``AUTH_RESPONSE``: yes or no to one action."""

    approved: bool = Field(default=False)
    reason: Text | None = None
    fingerprint: Annotated[str, Field(max_length=100)] | None = None
    payload: Any = None

    def read(self) -> Answer:
        """The answer. Raises ButlerError ``invalid_request`` where something lacks or is said in two ways."""
        said: Json = {}
        for part in (self, _verdict_in(self.payload)):
            if part is None:
                continue
            for name in ("action_id", "approved", "reason", "reasoning", "fingerprint"):
                if name not in part.model_fields_set or (value := getattr(part, name)) is None:
                    continue
                if said.setdefault(name, value) != value:
                    raise ButlerError("invalid_request", f"{name}: the frame and its payload say different things.")
        for name in ("action_id", "approved"):
            if name not in said:
                raise ButlerError("invalid_request", f"{name}: is missing. Nothing was decided.")
        reason = said.get("reason") or said.get("reasoning") or None
        return Answer(said["action_id"], said["approved"], reason, said.get("fingerprint"))


@dataclass(frozen=True)
class Answer:
    """A yes or no to one action."""

    action_id: str
    approved: bool
    reason: str | None
    fingerprint: str | None


Inbound = AuthFrame | ChatFrame | AuthResponseFrame
_MODELS: dict[str, type[AuthFrame | ChatFrame | AuthResponseFrame]] = {
    "AUTH": AuthFrame, "CHAT": ChatFrame, "AUTH_RESPONSE": AuthResponseFrame,
}  # fmt: skip


def read_frame(raw: str) -> Inbound:
    """Read one frame. Raises ButlerError ``too_large`` or ``invalid_request``."""
    data = raw.encode("utf-8", "surrogatepass")
    if len(data) > MOST_FRAME_BYTES:
        raise ButlerError("too_large", f"A frame may have at most {MOST_FRAME_BYTES // (1024 * 1024)} MiB.")
    value = read_json(data)
    if not isinstance(value, dict):
        raise ButlerError("invalid_request", "A frame is one JSON object with a `type`.")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _MODELS:
        if isinstance(kind, str) and kind in ANSWERS_ONLY:
            raise ButlerError("invalid_request", f"Only Butler sends {kind} frames; send CHAT or AUTH_RESPONSE.")
        raise ButlerError("invalid_request", "`type` must be one of AUTH, CHAT and AUTH_RESPONSE.")
    try:
        return _MODELS[kind].model_validate(value)
    except ValidationError as error:
        refusal = _refused(error)
        refusal.extras |= _named(value)
        raise refusal from None


def _verdict_in(payload: Any) -> Verdict | None:
    if payload is None or payload == "":
        return None
    if not isinstance(payload, dict):
        raise ButlerError("invalid_request", "payload: expected an object with action_id and approved.")
    try:
        return Verdict.model_validate(payload)
    except ValidationError as error:
        raise _refused(error, "payload") from None


def _refused(error: ValidationError, *place: str) -> ButlerError:
    faults = [
        {**fault, "loc": (*place, *fault["loc"])} for fault in error.errors(include_url=False, include_input=False)
    ]
    return ButlerError("invalid_request", f"{sentence_of(RequestValidationError(faults))} Nothing was done.")


def message_of(frame: ChatFrame) -> str:
    """What a person says. Raises ButlerError ``invalid_request``."""
    text = frame.payload
    if not isinstance(text, str) or not text.strip():
        raise ButlerError("invalid_request", "payload: expected text that is not empty.")
    if len(text) > MOST_MESSAGE_CHARACTERS:
        raise ButlerError("invalid_request", f"payload: must have at most {MOST_MESSAGE_CHARACTERS} characters.")
    return text


def _named(value: Any) -> Json:
    """What a frame names, as far as it can be told of a refused one."""
    found = {name: value.get(name) for name in NAMES} if isinstance(value, dict) else {}
    return {name: text for name, text in found.items() if isinstance(text, str) and len(text) <= 200}


def error_frame(error: ButlerError, frame: Inbound | None = None) -> Json:
    """The ``ERROR`` frame of a refusal, with what the refused frame named."""
    named = {}
    if frame is not None:
        payload = frame.payload if isinstance(frame, AuthResponseFrame) else None
        named = _named(payload) | _named(frame.model_dump(include=set(NAMES)))
    return {
        "type": "ERROR", **error.extras, **named, "code": error.code, "detail": error.detail, "status": error.status,
        "payload": error.detail,
    }  # fmt: skip
