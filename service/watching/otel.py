"""Spans through OpenTelemetry's SDK to an OTLP/HTTP receiver. Only `opening` imports this, when it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from butler.telemetry import Attributes, Kind, Span

KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class OpenTelemetry:
    """A provider of its own, never the global one: nothing else in the process begins to send because of it."""

    def __init__(self, service_name: str) -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("butler")

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """A span under the current one."""
        return self._span(name, attributes, kind)

    @contextmanager
    def _span(self, name: str, attributes: Attributes, kind: Kind) -> Iterator[Span]:
        # An error's message may hold what somebody said, so only its type is recorded.
        with self._tracer.start_as_current_span(
            name, kind=KINDS[kind], attributes=dict(attributes), record_exception=False, set_status_on_exception=False
        ) as opened:
            told = _Span(opened)
            try:
                yield told
            except BaseException as error:
                told.fail(type(error).__name__)
                raise

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class _Span:
    def __init__(self, opened: trace.Span) -> None:
        self._opened = opened

    def note(self, attributes: Attributes) -> None:
        self._opened.set_attributes(dict(attributes))

    def fail(self, kind: str) -> None:
        self._opened.set_attribute("error.type", kind)
        self._opened.set_status(Status(StatusCode.ERROR))
