"""A scripted model behind a real OpenAI-compatible HTTP endpoint: fast, and strict about histories.

``python -m tests.support.scripted_model --port 0`` prints its base URL on one line; `ScriptedModel`
runs it in a thread of the test. What it answers, in this order: queued replies (POST ``/_script``
``{"replies": [...]}``, see `Entry`), orders inside the user's text (see `directives`), ``done: <tool
text>`` after a tool result, else 50 tokens that echo the user. Requests with an ``X-Butler-Purpose``
header are only answered by queued replies with that ``purpose``, or by a fixed text.

Control: POST ``/_script``, ``/_release`` ``{"gate": name}``, ``/_reset``; GET ``/_log``,
``/_problems``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from tests.support import responses, wire
from tests.support.history import history_problem
from tests.support.replies import Entry, Json, Reply
from tests.support.script import Script, last_user_text


class ClientGone(Exception):
    """The client closed the connection while it was being answered."""


class Connection:
    """One client connection, several requests after another."""

    def __init__(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.script = script
        self.reader = reader
        self.writer = writer

    async def serve(self) -> None:
        """Answer requests until the client goes."""
        with contextlib.suppress(ClientGone, ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ", 2)
                pairs = (line.partition(":") for line in head[1:] if line)
                headers = {key.strip().lower(): value.strip() for key, _, value in pairs}
                body = await self.reader.readexactly(int(headers.get("content-length", "0")))
                await self._route(method, path.partition("?")[0], headers, body)
                await self.writer.drain()
        self.writer.close()

    async def _route(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        script = self.script
        match method, path.removeprefix("/v1"):
            case "POST", "/chat/completions":
                await self._chat(headers, body)
            case "POST", "/responses":
                await self._chat(headers, body)
            case "GET", "/models":
                models = [{"id": name, "object": "model"} for name in ("scripted", "spare")]
                self._json(200, {"object": "list", "data": models})
            case "POST", "/_script":
                try:
                    script.queue.extend([Entry.from_json(entry) for entry in json.loads(body)["replies"]])
                except (ValueError, KeyError, TypeError) as error:
                    return self._json(400, {"error": {"message": str(error)}})
                self._json(200, {"queued": len(script.queue)})
            case "POST", "/_release":
                script.gates[json.loads(body)["gate"]].set()
                self._json(200, {})
            case "POST", "/_reset":
                script.reset()
                self._json(200, {})
            case "GET", "/_log":
                self._json(200, list(script.log))
            case "GET", "/_problems":
                self._json(200, [entry for entry in script.log if entry["problem"]])
            case _:
                self._json(404, {"error": {"message": f"no route {method} {path}"}})

    async def _chat(self, headers: dict[str, str], raw: bytes) -> None:
        script = self.script
        purpose = headers.get("x-butler-purpose")
        script.count += 1
        entry: Json = {
            "n": script.count,
            "at": time.monotonic(),
            "headers": headers,
            "purpose": purpose,
            "body": None,
            "user": "",
            "problem": None,
            "status": 200,
            "state": "answering",
        }
        script.log.append(entry)
        try:
            body = entry["body"] = json.loads(raw)
            if "input" in body:
                body["messages"] = responses.as_messages(body)
            problem = history_problem(body.get("messages"))
            if problem is None:
                entry["user"] = last_user_text(body["messages"])
                reply = script.reply(body, purpose)
        except ValueError as error:
            problem = f"bad request or directive: {error}"
        if problem is not None:
            entry.update(problem=problem, status=400, state="done")
            return self._send(400, wire.error_body(400, problem))
        entry["status"] = reply.status
        try:
            await self._answer(reply, body)
        except (ClientGone, ConnectionError):
            entry["state"] = "cut" if reply.cut is not None else "disconnected"
            raise
        entry["state"] = "done"

    async def _answer(self, reply: Reply, body: Json) -> None:
        if reply.hang:
            await self._wait(asyncio.Event())
        if reply.hold:
            await self._wait(self.script.gates[reply.hold])
        if reply.delay:
            await self._wait(asyncio.Event(), reply.delay)
        model = str(body.get("model"))
        if reply.status != 200:
            extra = {"Retry-After": reply.retry_after} if reply.retry_after else {}
            return self._send(reply.status, wire.error_body(reply.status, reply.error, reply.code), extra)
        if "input" in body:
            return self._send(200, responses.events(reply, body["messages"]), kind="text/event-stream")
        if not body.get("stream") or reply.plain_json:
            if reply.cut is not None:
                return self._break()
            return self._send(200, wire.completion(reply, model, body["messages"]))
        if reply.cut == 0 and not reply.error_event:
            return self._break()
        await self._stream(reply, body, wire.StreamWriter(model))

    async def _stream(self, reply: Reply, body: Json, chunks: wire.StreamWriter) -> None:
        self.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        pending = [chunks.delta({"content": ""} if reply.no_role else {"role": "assistant", "content": ""})]
        tokens = wire.tokens_of(reply)
        holds = dict(reply.hold_after)
        for number, token in enumerate([*tokens, None]):
            if number in holds:
                await self._flush(pending)
                await self._wait(self.script.gates[holds[number]])
            if reply.cut is not None and number >= reply.cut:
                break
            if token is not None:
                pending.append(chunks.token(token))
                if reply.gap:
                    await self._flush(pending)
                    await self._wait(asyncio.Event(), reply.gap)
        if reply.error_event:
            pending.append(b"data: " + wire.error_body(500, "scripted error in the stream") + b"\n\n")
        elif reply.cut is not None:
            await self._flush(pending)
            return self._break()
        else:
            pending.extend(chunks.calls(reply))
            pending.append(chunks.delta({}, wire.finish_reason(reply)))
            if (body.get("stream_options") or {}).get("include_usage"):
                pending.append(chunks.usage(wire.usage_of(reply, body["messages"], len(tokens))))
            pending.append(b"data: [DONE]\n\n")
        await self._flush(pending)
        self.writer.write(b"0\r\n\r\n")

    async def _flush(self, pending: list[bytes]) -> None:
        data = b"".join(pending)
        pending.clear()
        if data:
            self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self.writer.drain()

    async def _wait(self, event: asyncio.Event, seconds: float | None = None) -> None:
        """Wait for the event or so many seconds; give up when the client goes."""
        opened = asyncio.ensure_future(event.wait())
        gone = asyncio.ensure_future(self.reader.read(1))
        try:
            await asyncio.wait({opened, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientGone
        finally:
            opened.cancel()
            gone.cancel()
            await asyncio.gather(opened, gone, return_exceptions=True)

    def _break(self) -> None:
        self.writer.transport.abort()
        raise ClientGone

    def _json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode())

    def _send(
        self, status: int, body: bytes, extra: Mapping[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}"]
        lines.append(f"Content-Length: {len(body)}")
        lines += [f"{key}: {value}" for key, value in (extra or {}).items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


async def listen(script: Script, host: str = "127.0.0.1", port: int = 0) -> tuple[asyncio.Server, str]:
    """Start to listen; gives the server and its base URL (with ``/v1``)."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(script, reader, writer).serve()

    server = await asyncio.start_server(accept, host, port, limit=1 << 20, backlog=1024)
    return server, f"http://{host}:{server.sockets[0].getsockname()[1]}/v1"


class ScriptedModel:
    """The endpoint in a thread of the test's own process, with its controls as plain methods."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-model", daemon=True)
        self._thread.start()
        self.script = self._run(self._make())
        self._server, self.url = asyncio.run_coroutine_threadsafe(listen(self.script), self._loop).result(10)

    async def _make(self) -> Script:
        return Script()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def stop(self) -> None:
        """Close the port and end the thread."""

        async def close() -> None:
            self._server.close()
            self.script.reset()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reset(self) -> None:
        """Forget queue, counters and log; open every gate."""

        async def forget() -> None:
            self.script.reset()

        self._run(forget())

    def reply(self, **entry: Any) -> None:
        """Queue one reply: the keys of `Reply` and the conditions of `Entry`."""
        made = Entry.from_json(entry)

        async def add() -> None:
            self.script.queue.append(made)

        self._run(add())

    def release(self, gate: str) -> None:
        """Open a gate that a reply waits at, or will wait at."""

        async def open_gate() -> None:
            self.script.gates[gate].set()

        self._run(open_gate())

    def requests(self, marker: str | None = None, *, hidden: bool = False) -> list[Json]:
        """The requests so far whose last user message holds the marker; hidden calls only when wanted."""
        return [
            entry
            for entry in list(self.script.log)
            if (marker is None or marker in entry["user"]) and (hidden or entry["purpose"] is None)
        ]

    def problems(self) -> list[str]:
        """What was wrong with the histories sent so far."""
        wrong = [entry for entry in list(self.script.log) if entry["problem"]]
        return [f"request {entry['n']}: {entry['problem']}" for entry in wrong]


async def _main(host: str, port: int) -> None:
    server, url = await listen(Script(), host, port)
    print(url, flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(options.host, options.port))
