"""What can go wrong at a model endpoint, said so that one knows what to do, and what may be tried again
(B2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from butler.errors import ModelFailed
from butler.models.config import ModelConfig
from butler.models.overflow import Overflow

CLIP_CHARS = 200

_KEY_LIKE = re.compile(r"(?i)\bbearer\s+\S+|\b(?:sk|pk|rk|key|gsk|xai|hf|api)[-_][\w-]{6,}|[A-Za-z0-9_+/=-]{32,}")
_TRANSIENT = frozenset({408, 425, 429})


class TooSlow(ModelFailed):
    """A hidden call had no answer within its time."""


class Fault(Exception):
    """One failed try.

    Args:
        detail: the sentence for the person who asked.
        retry: whether the same model may be asked again.
        fallback: whether another model of the endpoint may do better.
        retry_after: seconds the endpoint asked to wait.
        status: the HTTP status, where there was one.
        said: the endpoint's own words, for recognising what it does not take; never shown.
        empty: the answer was sound but held nothing.
        overflow: the request was too long for the model.
        silent: nothing had come when time was up.
    """

    def __init__(
        self,
        detail: str,
        *,
        retry: bool = False,
        fallback: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        said: str = "",
        empty: bool = False,
        overflow: Overflow | None = None,
        silent: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry = retry
        self.fallback = fallback
        self.retry_after = retry_after
        self.status = status
        self.said = said
        self.empty = empty
        self.overflow = overflow
        self.silent = silent
        # Filled in where it is caught: what had come of the answer by then.
        self.begun = False
        self.partial = ""


@dataclass(frozen=True)
class Complaint:
    """What an endpoint says in an error object."""

    message: str = ""
    code: str = ""

    @staticmethod
    def read(body: Any) -> Complaint:
        """Read the error shapes in use: ``{"error": {...}}``, ``{"error": "text"}``, ``{"detail": ...}``."""
        error = body.get("error", body) if isinstance(body, Mapping) else body
        if isinstance(error, Mapping):
            message = error.get("message") or error.get("detail") or error.get("msg") or ""
            codes = (error.get(key) for key in ("code", "type", "status", "param"))
            return Complaint(str(message), " ".join(str(code) for code in codes if code is not None))
        # A page of HTML says nothing to a person.
        return Complaint(error if isinstance(error, str) and not error.lstrip().startswith("<") else "")


def from_status(status: int, body: Any, config: ModelConfig, model: str, retry_after: float | None = None) -> Fault:
    """Judge an HTTP error status."""
    complaint = Complaint.read(body)
    said = f"{complaint.code} {complaint.message}"
    lower = said.lower()
    clipped = clip(complaint.message, config)
    because = f": {clipped}" if clipped else ""

    overflow = Overflow.read(status, body, said)

    def fault(detail: str, *, retry: bool = False, fallback: bool = False) -> Fault:
        return Fault(
            detail, retry=retry, fallback=fallback, retry_after=retry_after, status=status, said=said, overflow=overflow
        )

    if status == 401:
        return fault("The model endpoint refused the token (401). Check BUTLER_API_TOKEN.")
    if status == 403:
        return fault(
            f"The model endpoint does not allow this (403){because}. "
            f"Check that BUTLER_API_TOKEN may use the model {model!r}."
        )
    if overflow is not None:
        takes = f"; the endpoint takes {overflow.takes} tokens" if overflow.takes else ""
        return fault(
            f"The talk is too long for the model {model!r} ({status}{takes}). "
            "Lower BUTLER_CONTEXT_LIMIT, or start again with /new."
        )
    if status == 404 or "model_not_found" in lower:
        return fault(
            f"The model endpoint does not know the model {model!r} or the address ({status}). "
            "Check BUTLER_MODEL and BUTLER_BASE_URL.",
            fallback=True,
        )
    if "insufficient_quota" in lower or status == 402:
        return fault(
            f"The quota of the model endpoint is used up ({status}). Check the account's plan and billing.",
            fallback=True,
        )
    if status == 429:
        return fault(
            "The model endpoint gets too many requests (429). Try again in a minute.",
            retry=True,
            fallback=True,
        )
    if status >= 500 or status in _TRANSIENT:
        return fault(f"The model endpoint has trouble ({status}). Try again later.", retry=True, fallback=True)
    return fault(f"The model endpoint rejected the request ({status}){because}.")


def from_event(error: Any, config: ModelConfig, model: str) -> Fault:
    """Judge an error object that came inside a stream or under a good status."""
    body = {"error": error}
    code = error.get("code") or error.get("status") if isinstance(error, Mapping) else None
    if str(code).isdecimal() and 400 <= int(str(code)) < 600:
        return from_status(int(str(code)), body, config, model)
    complaint = Complaint.read(body)
    said = f"{complaint.code} {complaint.message}"
    if "invalid_request" in complaint.code or Overflow.read(400, error, said) is not None:
        return from_status(400, body, config, model)
    clipped = clip(complaint.message, config)
    because = f": {clipped}" if clipped else ""
    return Fault(f"The model endpoint reported an error{because}. Try again later.", retry=True, fallback=True)


def unreachable(config: ModelConfig) -> Fault:
    """No connection, or one that ended before the answer began."""
    parts = urlsplit(config.base_url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    return Fault(
        f"The model endpoint at {host} cannot be reached. Check that it runs, and BUTLER_BASE_URL.",
        retry=True,
        fallback=True,
    )


def silent(seconds: float, *, begun: bool) -> Fault:
    """Nothing came for too long."""
    seconds = round(seconds) if seconds >= 10 else round(seconds, 1)
    if begun:
        return Fault(f"The model fell silent for {seconds:g} s in the middle of its answer. Try again.")
    return Fault(
        f"The model did not answer within {seconds:g} s. Try again, or raise BUTLER_MODEL_TIMEOUT.",
        retry=True,
        fallback=True,
        silent=True,
    )


def cut_off() -> Fault:
    """The connection ended before the answer did."""
    return Fault(
        "The connection to the model broke before its answer was complete. Try again.",
        retry=True,
        fallback=True,
    )


def unreadable() -> Fault:
    """The body is no chat completion."""
    return Fault(
        "The model endpoint sent something that is no chat completion. Check BUTLER_BASE_URL; it usually ends in /v1."
    )


def empty_answer() -> Fault:
    """A sound answer without text and without calls."""
    return Fault("The model gave an empty answer. Try again.", retry=True, fallback=True, empty=True)


def blocked() -> Fault:
    """The provider's filter took the answer away."""
    return Fault("The model's provider blocked this answer (content filter). Say it in another way.")


def too_large() -> Fault:
    """More text or calls than any use needs."""
    return Fault("The model's answer grew too large and was stopped. Ask for less at once.")


def clip(text: str, config: ModelConfig) -> str:
    """Give a short piece of foreign text without anything that looks like a key."""
    if len(config.api_token) > 2:
        text = text.replace(config.api_token, "…")
    text = _KEY_LIKE.sub("…", " ".join(text[: 4 * CLIP_CHARS].split()))
    return (text if len(text) <= CLIP_CHARS else text[: CLIP_CHARS - 1] + "…").rstrip(".")
