"""A local OTLP/HTTP receiver that keeps the spans it is sent."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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

    def __init__(self) -> None:
        self.url = ""
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


@dataclass
class Posts:
    """JSON bodies with the paths that they came to."""

    url: str = ""
    bodies: list[tuple[str, Any]] = field(default_factory=list)


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    """A receiver of OTLP that listens while the context lasts."""
    receiver = TraceReceiver()
    with _listening(lambda _path, body: receiver.take(body), b"") as receiver.url:
        yield receiver


@contextmanager
def json_receiver() -> Iterator[Posts]:
    """A receiver of JSON that says ``{"code": 0}`` to everything."""
    posts = Posts()
    answer = b'{"code":0,"msg":""}'
    with _listening(lambda path, body: posts.bodies.append((path, json.loads(body))), answer) as posts.url:
        yield posts


@contextmanager
def _listening(take: Callable[[str, bytes], None], answer: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            take(self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
