"""A local HTTP receiver that stands for a chat service: Apprise's ``json://`` URLs lead to it."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.support.polling import wait_until

Json = dict[str, Any]


class Receiver:
    """Keeps what each path received.

    A path answers 200 unless `refuse` says otherwise, and waits while `hold` says so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received: list[tuple[str, Json]] = []
        self._tried: list[str] = []
        self._refusing: set[str] = set()
        self._gates: dict[str, threading.Event] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                status = receiver._take(self.path.partition("?")[0], json.loads(body))
                answer = b"{}"
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True  # The sender did not wait for the answer.

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gate in self._gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()

    def url(self, path: str, **params: str) -> str:
        """The Apprise URL that leads to `path`."""
        query = "&".join(f"{name}={value}" for name, value in params.items())
        return f"json://127.0.0.1:{self.port}/{path}" + (f"?{query}" if query else "")

    def refuse(self, path: str, refusing: bool = True) -> None:
        """Answer 503 at that path, or no longer."""
        with self._lock:
            (self._refusing.add if refusing else self._refusing.discard)(f"/{path}")

    def hold(self, path: str) -> None:
        """Leave senders to that path without an answer until the receiver ends."""
        self._gates[f"/{path}"] = threading.Event()

    def _take(self, path: str, message: Json) -> int:
        with self._lock:
            self._tried.append(path)
            refusing = path in self._refusing
        if (gate := self._gates.get(path)) is not None:
            gate.wait(60)
            return 503
        if refusing:
            return 503
        with self._lock:
            self._received.append((path, message))
        return 200

    def tries(self, path: str) -> int:
        """How often a message for that path arrived, taken or not."""
        with self._lock:
            return self._tried.count(f"/{path}")

    def messages(self, path: str, containing: str = "") -> list[Json]:
        """What that path took whose body holds a text."""
        with self._lock:
            return [one for at, one in self._received if at == f"/{path}" and containing in one["message"]]

    def message(self, path: str, containing: str, seconds: float = 60.0) -> Json:
        """Wait for the first such message."""
        found = wait_until(lambda: self.messages(path, containing), f"{containing!r} arrives at {path}", seconds)
        return found[0]

    def everything(self) -> str:
        """All that ever arrived, as one text."""
        with self._lock:
            return json.dumps(self._received)


def link_in(message: Json) -> str:
    """The path of the signed link in a message."""
    found = re.search(r"https?://[^/\s]+(/decide/\S+)", message["message"])
    assert found, message["message"]
    return found[1]
