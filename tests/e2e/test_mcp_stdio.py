"""`butler mcp`: the same tools over standard input and output, whether the server runs or not."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client as McpClient

from tests.support.client import Client, Json
from tests.support.forks import Forked, mother
from tests.support.mcp_calls import rpc
from tests.support.orders import call, fresh
from tests.support.server import ROOT, ButlerServer, MakeButler

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Wire:
    """A started `butler mcp`, spoken to line by line."""

    def __init__(self, server: ButlerServer) -> None:
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        with (server.home / "mcp-stderr.log").open("a") as errors:
            argv = ["-m", "service.cli", "mcp"]
            pid, status = mother().start(
                argv, server.home, server.env, stdin=theirs_in, stdout=theirs_out, stderr=errors.fileno()
            )
        for end in (theirs_in, theirs_out):
            os.close(end)
        self.into, self.out = os.fdopen(ours_in, "w"), os.fdopen(ours_out)
        self.process = Forked(pid, status, None)
        self._number = 0

    def ask(self, method: str, params: Json | None = None) -> Json:
        """One request; gives its whole answer, which has to be the next line."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params or {}})
        answer: Json = json.loads(self.out.readline())
        assert answer["id"] == self._number, answer
        return answer

    def send(self, message: Json) -> None:
        """One message."""
        self.into.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.into.flush()

    def begin(self) -> None:
        """The handshake."""
        assert self.ask("initialize", HELLO)["result"]["serverInfo"]["name"] == "butler"
        self.send({"method": "notifications/initialized"})

    def tool(self, name: str, **arguments: Any) -> Json:
        """The result of a call."""
        result: Json = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        return result


@pytest.fixture
def server(make_butler: MakeButler) -> ButlerServer:
    return make_butler()


@pytest.fixture
def wire(server: ButlerServer) -> Iterator[Wire]:
    made = Wire(server)
    yield made
    made.process.kill()
    made.process.wait(10)
    made.into.close()
    made.out.close()


def test_it_answers_before_the_server_runs_and_works_once_it_does(server: ButlerServer, wire: Wire) -> None:
    wire.begin()
    listed = wire.ask("tools/list")["result"]
    down = wire.tool("chat", message="hello")
    assert down["isError"] and down["structuredContent"]["code"] == "unreachable"
    assert "butler serve" in down["structuredContent"]["detail"]
    owner = server.start().client()
    assert rpc(owner, "tools/list").json()["result"] == listed
    hello(wire, owner)
    server.restart()
    hello(wire, owner)
    outside = wire.tool("chat", message="hello", more=1)
    assert outside["isError"] and outside["structuredContent"]["code"] == "invalid_request"
    assert "no tool" in wire.ask("tools/call", {"name": "rm"})["error"]["message"]
    wire.into.close()
    assert wire.process.wait(10) == 0
    assert wire.out.read() == ""


def hello(wire: Wire, owner: Client) -> None:
    text = fresh()
    result = wire.tool("chat", message=call("append_line", text))
    outcome = result["structuredContent"]
    assert (
        outcome["status"] == "parked" and f"/approve {outcome['approvals'][0]['code']}" in result["content"][1]["text"]
    )
    owner.decided(outcome["thread_id"], {"action_id": outcome["approvals"][0]["action_id"], "decision": "reject"})
    read = wire.ask("resources/read", {"uri": f"butler://runs/{outcome['run_id']}"})
    assert json.loads(read["result"]["contents"][0]["text"])["status"] == "done"


def test_sigterm_ends_it_at_once(wire: Wire) -> None:
    wire.begin()
    wire.process.send_signal(signal.SIGTERM)
    assert wire.process.wait(10) == 0


async def test_the_official_client_starts_it_as_a_member(server: ButlerServer) -> None:
    mia = server.start().user_add("mia", "member")
    env = {
        "PATH": server.env["PATH"],
        "PYTHONPATH": str(ROOT),
        "BUTLER_URL": server.url,
        "BUTLER_TOKEN": str(mia.token),
    }
    program = StdioServerParameters(command=sys.executable, args=["-m", "service.cli", "mcp"], env=env, cwd=server.home)
    async with McpClient(program) as client:
        done = await client.call_tool("chat", {"message": call("append_line", fresh())})
        [asked] = done.structured_content["approvals"]
        assert asked["requested_by"] == "mia"
        refused = await client.call_tool(
            "approvals_decide", {"action_id": asked["action_id"], "decision": "approve"}
        )  # fmt: skip
        assert refused.is_error and refused.structured_content["code"] == "not_an_approver"
