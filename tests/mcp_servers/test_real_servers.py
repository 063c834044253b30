"""Real MCP servers of the registry through a real Butler: files, memory, and the one that can everything (E3).

They are those of ``package-lock.json`` beside this file; ``make test`` installs them without any install script.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh, results
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ROOT, ButlerServer

INSTALLED = ROOT / ".agents" / "mcp" / "node_modules" / "@modelcontextprotocol"


def program(name: str) -> str:
    """The script of an installed server."""
    path = INSTALLED / f"server-{name}" / "dist" / "index.js"
    assert path.exists(), f"{path} is missing: run `make .agents/.mcp`"
    return str(path)


def node(name: str, *args: str, **more: Any) -> Json:
    """The entry of a server that is started."""
    return {"command": "node", "args": [program(name), *args], **more}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The server that can everything, over streamable HTTP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {"PATH": os.environ["PATH"], "PORT": str(port)}
    args = ["node", program("everything"), "streamableHttp"]
    process = subprocess.Popen(args, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, "the server listens", 30)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait(10)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="module")
def house(
    shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory, shelf: Path, address: str
) -> Iterator[ButlerServer]:
    server = ButlerServer(tmp_path_factory.mktemp("butler"), shared_model.url, {"WORD": "of-butler-alone"})
    server.workshop.write_mcp(
        files=node("filesystem", str(shelf), tools={"read_text_file": {"verdict": "allow"}}),
        memory=node("memory", env={"MEMORY_FILE_PATH": str(server.config / "memory.jsonl")}),
        every=node("everything", verdict="allow", tools={"trigger-long-running-operation": {"verdict": "approve"}}),
        far={"url": address, "verdict": "allow"},
    )
    server.workshop.write_policy({"name": "reads", "tool": "memory__read_graph", "verdict": "allow"})
    owner = server.start().client()
    wait_until(lambda: "4 of 4" in owner.get("/readyz")["checks"]["mcp"]["detail"], "the servers are up", 60)
    yield server
    server.close()


@pytest.fixture
def owner(house: ButlerServer, model: ScriptedModel, request: pytest.FixtureRequest) -> Iterator[Client]:
    yield house.client()
    request.node.add_report_section("teardown", "butler stderr", house.tail)


def said(model: ScriptedModel, owner: Client, order: str) -> str:
    """What the model was told of a call that runs at once."""
    marker = fresh()
    assert owner.chat(f"{marker} {order}")["status"] == "done"
    [result] = results(model, marker)
    told = json.loads(result)
    return str(told.get("untrusted_result", told.get("untrusted_error", told.get("error"))))


def test_a_file_is_written_once_when_a_person_has_approved_it(owner: Client, shelf: Path) -> None:
    path = shelf / "note.txt"
    parked = owner.chat(call("files__write_file", path=str(path), content="hello"))
    [asked] = parked["approvals"]
    assert asked["args"] == {"path": str(path), "content": "hello"} and not path.exists()
    assert owner.decided(parked["thread_id"], approve(asked))["status"] == "done"
    assert path.read_text() == "hello"
    assert owner.approval(asked["action_id"])["execution"] == "done"


def test_a_file_is_read_and_what_lies_outside_is_an_error(owner: Client, model: ScriptedModel, shelf: Path) -> None:
    (shelf / "read.txt").write_text("what it says")
    assert "what it says" in said(model, owner, call("files__read_text_file", path=str(shelf / "read.txt")))
    assert "Access denied" in said(model, owner, call("files__read_text_file", path="/etc/hostname"))


def test_the_hint_that_a_tool_only_reads_allows_nothing(owner: Client, shelf: Path) -> None:
    assert owner.chat(call("files__list_directory", path=str(shelf)))["status"] == "parked"


def test_the_memory_outlives_a_killed_butler(house: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    name = fresh("entity")
    entities = [{"name": name, "entityType": "test", "observations": ["is remembered"]}]
    parked = owner.chat(call("memory__create_entities", entities=entities))
    assert owner.decided(parked["thread_id"], approve(parked["approvals"][0]))["status"] == "done"
    house.restart()
    assert name in said(model, owner, call("memory__read_graph"))


@pytest.mark.parametrize("server", ["every", "far"])
def test_both_transports_carry_text_pictures_and_structure(owner: Client, model: ScriptedModel, server: str) -> None:
    word = fresh()
    assert said(model, owner, call(f"{server}__echo", message=word)) == f"Echo: {word}"
    assert "[image, image/png, 4035 bytes: not shown]" in said(model, owner, call(f"{server}__get-tiny-image"))
    forecast = said(model, owner, call(f"{server}__get-structured-content", location="Chicago"))
    assert json.loads(forecast)["temperature"]


def test_a_server_sees_no_variable_that_is_not_its_own(owner: Client, model: ScriptedModel) -> None:
    told = said(model, owner, call("every__get-env"))
    assert "PATH" in told and "of-butler-alone" not in told and "BUTLER_OWNER_TOKEN" not in told


def test_a_server_that_is_killed_in_a_call_costs_that_call_and_comes_back(
    house: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker, order = fresh(), call("every__trigger-long-running-operation", duration=60, steps=2)
    parked = owner.chat(f"{marker} {order}")
    assert house.process is not None
    children = psutil.Process(house.process.pid).children()
    [process] = [one for one in children if program("everything") in one.cmdline()]
    heard = process.io_counters().read_chars
    owner.post(f"/approvals/{parked['approvals'][0]['action_id']}", {"decision": "approve"})
    wait_until(lambda: process.io_counters().read_chars > heard, "the server has heard of the call")
    process.kill()
    owner.when_run(parked["run_id"], "done")
    assert "not repeated" in results(model, marker)[0]
    assert said(model, owner, call("every__echo", message="back")) == "Echo: back"
