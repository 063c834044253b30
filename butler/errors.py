"""Every error a person or program can meet, with codes that are the same on each face (http-api, *Errors*)."""

from __future__ import annotations

from typing import Any

from config.problems import ConfigError, Problem

__all__ = ["STATUS_OF_CODE", "ButlerError", "ConfigError", "ModelFailed", "Problem"]

STATUS_OF_CODE: dict[str, int] = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_an_approver": 403,
    "not_found": 404,
    "already_decided": 409,
    "stale_decision": 409,
    "not_parked": 409,
    "thread_busy": 409,
    "parked": 409,
    "invalid_request": 422,
    "expired": 410,
    "too_large": 413,
    "rate_limited": 429,
    "model_unavailable": 503,
    "internal": 500,
}


class ButlerError(Exception):
    """A refusal or failure with a stable code and a sentence that says what to do next.

    Args:
        code: one of ``STATUS_OF_CODE``, or a start-up code such as ``duplicate_governed_tool``.
        detail: one or two plain sentences for the person who asked.
        extras: JSON values that go beside the code, such as ``decision`` for ``already_decided``.
    """

    def __init__(self, code: str, detail: str, **extras: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.extras = extras

    @property
    def status(self) -> int:
        """The HTTP status of the code; 500 for codes that only exist at start-up."""
        return STATUS_OF_CODE.get(self.code, 500)


class ModelFailed(ButlerError):
    """The model could not answer; `partial` holds the text that had already been streamed (B2)."""

    def __init__(self, detail: str, *, partial: str = "") -> None:
        super().__init__("model_unavailable", detail)
        self.partial = partial
