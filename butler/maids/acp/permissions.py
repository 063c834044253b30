"""Permission requests of an agent: what is asked, and which single-use option answers it (D10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from butler.maids.acp.places import Place
from butler.maids.acp.updates import as_arguments, command_of, has_diff, kind_of, resolved
from butler.maids.contract import PermissionAnswer, PermissionRequest

KIND_OF_ANSWER: dict[PermissionAnswer, Literal["allow_once", "reject_once"]] = {
    "allow": "allow_once",
    "reject": "reject_once",
}
"""The only options that are ever chosen; an answer that is not here, or not offered, is ``cancelled``."""


@dataclass(frozen=True)
class Option:
    """One of the answers that an agent offers."""

    option_id: str
    kind: str


def request_of(place: Place, call: Mapping[str, Any]) -> PermissionRequest:
    """Read a permission request.

    Args:
        place: what paths are resolved against.
        call: all that has been said of the tool call, as on the wire; the title is free text and decides nothing.
    """
    raw = as_arguments(call.get("rawInput"))
    said = call.get("kind")
    paths = resolved(place, call)
    return PermissionRequest(
        call_id=str(call.get("toolCallId", "")),
        kind=kind_of(said if isinstance(said, str) else "", raw, has_diff(call)),
        title=str(call.get("title") or ""),
        command=command_of(raw),
        paths=paths,
        outside=tuple(path for path in paths if not place.is_inside(path)),
        raw_input=raw,
    )


def can_allow(options: Sequence[Option]) -> bool:
    """Whether a yes could be sent at all; where only standing permissions are offered nobody needs to be asked."""
    return any(option.kind == "allow_once" for option in options)


def response_to(answer: PermissionAnswer, options: Sequence[Option]) -> RequestPermissionResponse:
    """Choose by kind and send back the id; without a single-use option of that kind the outcome is ``cancelled``."""
    wanted = KIND_OF_ANSWER.get(answer)
    for option in options:
        if option.kind == wanted:
            return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))
    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
