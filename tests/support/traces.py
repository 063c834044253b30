"""A local OTLP/HTTP receiver that keeps the spans it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    """A span as it arrived; `parent` is empty for one without."""

    name: str
    service: str
    span_id: bytes
    parent: bytes
    attributes: dict[str, Any]
    failed: bool


class TraceReceiver:
    """What arrived so far, in `spans`; `raw` has the bytes."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[Seen] = []
        self.raw: list[bytes] = []

    def named(self, name: str) -> list[Seen]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        """Read an export request."""
        self.raw.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [
                    Seen(span.name, service, span.span_id, span.parent_span_id, _attributes(span.attributes),
                         span.status.code == 2)
                    for span in scope.spans
                ]  # fmt: skip


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    """A receiver that listens while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            receiver.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = TraceReceiver(server.server_address[1])
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
