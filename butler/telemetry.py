"""The one thin interface to tracing: spans that cost nothing until the house is told where to send them (B8).

What a span says is names, ids and counts, never what was said. The telemetry in force belongs to a context, like the
current span does, so that nodes, models and tools need not hand it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Literal, Protocol

Value = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Value]
Kind = Literal["internal", "client"]


class Span(Protocol):
    """A stretch of work."""

    def note(self, attributes: Attributes) -> None:
        """Add what is known only now."""

    def fail(self, kind: str) -> None:
        """Say that the work came to nothing though it raised no error."""


class Telemetry(Protocol):
    """Opens spans; one that is left with an error is marked with the error's type."""

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """A span under the current one."""

    def close(self) -> None:
        """Send what is left; blocks for some seconds at most."""


class _NoSpan:
    def note(self, attributes: Attributes) -> None:
        """Nobody listens."""

    def fail(self, kind: str) -> None:
        """Nobody listens."""


class Off:
    """Opens no spans."""

    def __init__(self) -> None:
        self._nothing = nullcontext(_NoSpan())

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """Nothing."""
        return self._nothing

    def close(self) -> None:
        """Nothing."""


OFF: Telemetry = Off()
_in_force: ContextVar[Telemetry] = ContextVar("butler_telemetry", default=OFF)


def use(telemetry: Telemetry) -> None:
    """Let this context, and all tasks begun in it from here on, send their spans there."""
    _in_force.set(telemetry)


def is_off() -> bool:
    """Whether spans go nowhere."""
    return _in_force.get() is OFF


def span(name: str, attributes: Attributes, kind: Kind = "internal") -> AbstractContextManager[Span]:
    """A span of the telemetry in force; by default none.

    Args:
        name: one of few, such as ``butler.user_message``, or as OpenTelemetry's GenAI conventions have it.
        attributes: scalars that tell which; ids and names, never contents.
    """
    return _in_force.get().span(name, attributes, kind)
