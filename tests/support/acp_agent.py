"""A scripted agent that speaks the Agent Client Protocol over its standard input and output, badly if it is told to.

``python acp_agent.py SCRIPT`` with a JSON object: ``steps`` of the turn, and how it starts (see `Agent`). Only the
standard library: it starts fast, and can send what the SDK would refuse to. All that Butler sent is in
``$HOME/received.jsonl``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

Json = dict[str, Any]


class Agent:
    """Options: `modes`, `config_options`, `loads`, `history` (updates replayed by a load), `replay`
    (steps done by a load), `version`,
    `refuse` {method: error}, `deaf` (heeds no cancel), `stubborn` (heeds no end of input and no SIGTERM),
    `silent_start` (answers nothing at all), `deaf_to` (a method that it never answers)."""

    def __init__(self, script: Json) -> None:
        self.script = script
        self.session = "session-1"
        self.prompt_id: Any = None
        self.cancelled = False
        self.asked = 0
        self.received = Path(os.environ["HOME"], "received.jsonl")
        if script.get("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def run(self) -> NoReturn:
        """Serve until the end of the input."""
        while True:
            self.handle(self.read())

    def read(self) -> Json:
        """The next message; at the end of the input the agent ends too, or waits for ever."""
        while True:
            line = sys.stdin.readline()
            if not line:
                if not self.script.get("stubborn"):
                    sys.exit(0)
                time.sleep(3600)
            with self.received.open("a", encoding="utf-8") as file:
                file.write(line)
            message: Json = json.loads(line)
            if message.get("method") == "session/cancel":
                self.cancelled = not self.script.get("deaf")
            return message

    def handle(self, message: Json) -> None:
        """Answer one request of the client."""
        method, number = message.get("method", ""), message.get("id")
        if number is None or "method" not in message or self.script.get("silent_start"):
            return
        if method == self.script.get("deaf_to"):
            return
        if method in self.script.get("refuse", {}):
            self.send({"id": number, "error": self.script["refuse"][method]})
        elif method == "initialize":
            loads = {"loadSession": bool(self.script.get("loads"))}
            self.answer(number, {"protocolVersion": self.script.get("version", 1), "agentCapabilities": loads})
        elif method == "session/new":
            self.answer(number, {"sessionId": self.session, **self.offers()})
        elif method == "session/load":
            for update in self.script.get("history", []):
                self.update(update)
            self.session = message["params"]["sessionId"]
            self.steps(self.script.get("replay", []))
            self.answer(number, self.offers())
        elif method == "session/prompt":
            self.prompt_id = number
            self.turn()
        else:
            self.answer(number, {})

    def offers(self) -> Json:
        """The modes that a session has."""
        found: Json = {}
        if names := self.script.get("modes"):
            modes = [{"id": name, "name": name} for name in names]
            found["modes"] = {"currentModeId": names[0], "availableModes": modes}
        if options := self.script.get("config_options"):
            found["configOptions"] = options
        return found

    def turn(self) -> None:
        """Go through the steps; end_turn when none of them ended the turn."""
        self.steps(self.script.get("steps", []))
        if self.prompt_id is not None:
            self.do_end("cancelled" if self.cancelled else "end_turn")

    def steps(self, steps: list[Json]) -> None:
        """Do one after the other, until a cancel or the end of the turn."""
        is_turn = self.prompt_id is not None
        for step in steps:
            (name, value), *_ = step.items()
            if self.cancelled or (is_turn and self.prompt_id is None):
                return
            getattr(self, f"do_{name}")(value)

    def do_end(self, reason: str) -> None:
        self.answer(self.prompt_id, {"stopReason": reason, **self.script.get("usage", {})})
        self.prompt_id = None

    def do_error(self, error: Json) -> None:
        self.send({"id": self.prompt_id, "error": error})
        self.prompt_id = None

    def do_say(self, text: str) -> None:
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def do_think(self, text: str) -> None:
        self.update({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}})

    def do_update(self, update: Json) -> None:
        self.update(update)

    def do_ask(self, params: Json) -> None:
        self.call("session/request_permission", params)

    def do_call(self, call: list[Any]) -> None:
        self.call(call[0], call[1])

    def do_notify(self, call: list[Any]) -> None:
        self.send({"method": call[0], "params": call[1]})

    def do_raw(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def do_stderr(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def do_write(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            Path(name).write_text(content, encoding="utf-8")

    def do_leave(self, argv: list[str]) -> None:
        """Leave a process behind, in a session of its own."""
        nothing = subprocess.DEVNULL
        subprocess.Popen(argv, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)

    def do_flood(self, size: int) -> None:
        """Say very much."""
        for _ in range(size // 1000):
            self.do_say("x" * 1000)

    def do_line(self, size: int) -> None:
        """Say one endless line."""
        for _ in range(size // 1_000_000):
            sys.stdout.write("x" * 1_000_000)
        sys.stdout.flush()

    def do_pester(self, count: int) -> None:
        """Ask and ask without listening."""
        for number in range(count):
            params = {"toolCall": {"toolCallId": str(number), "title": "?"}, "options": []}
            self.send({"id": number, "method": "session/request_permission", "params": {"sessionId": "x", **params}})

    def do_hang(self, _: bool) -> None:
        """Wait for a cancel, or for ever."""
        while not self.cancelled:
            self.handle(self.read())

    def do_exit(self, status: int) -> None:
        sys.exit(status)

    def call(self, method: str, params: Json) -> Json:
        """Ask the client and wait for its answer. ``{terminal}`` stands for the last terminal's id."""
        self.asked += 1
        number = f"agent-{self.asked}"
        filled = json.loads(json.dumps(params).replace("{terminal}", getattr(self, "terminal", "")))
        self.send({"id": number, "method": method, "params": {"sessionId": self.session, **filled}})
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                self.terminal = (message.get("result") or {}).get("terminalId", getattr(self, "terminal", ""))
                return message
            self.handle(message)

    def update(self, update: Json) -> None:
        self.send({"method": "session/update", "params": {"sessionId": self.session, "update": update}})

    def answer(self, number: Any, result: Json) -> None:
        self.send({"id": number, "result": result})

    def send(self, message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Agent(json.loads(sys.argv[1])).run()
