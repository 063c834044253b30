"""More than one telemetry at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from butler.telemetry import Attributes, Kind, Span, Telemetry


class Several:
    """Tells each of them the same."""

    def __init__(self, each: Sequence[Telemetry]) -> None:
        self._each = each

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """A span of each."""
        return self._span(name, attributes, kind)

    @contextmanager
    def _span(self, name: str, attributes: Attributes, kind: Kind) -> Iterator[Span]:
        with ExitStack() as stack:
            yield _Spans([stack.enter_context(one.span(name, attributes, kind)) for one in self._each])

    def close(self) -> None:
        """Close each, also when one of them fails."""
        with ExitStack() as stack:
            for one in self._each:
                stack.callback(one.close)


class _Spans:
    def __init__(self, each: Sequence[Span]) -> None:
        self._each = each

    def note(self, attributes: Attributes) -> None:
        for one in self._each:
            one.note(attributes)

    def fail(self, kind: str) -> None:
        for one in self._each:
            one.fail(kind)
