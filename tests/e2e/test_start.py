"""Starting and stopping: the owner's token, faults of the configuration, and a clean end."""

from __future__ import annotations

import os
import re
import signal
import stat

import pytest

from tests.support.orders import fresh
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.workshop import tool


@pytest.fixture
def make_program(make_butler: MakeButler) -> MakeButler:
    """Installations whose processes are ``python server.py``, as a person starts it."""

    def make(*, with_model: bool = True, **env: str) -> ButlerServer:
        server = make_butler(with_model=with_model, **env)
        server.own_interpreter = True
        return server

    return make


def without_token(server: ButlerServer) -> ButlerServer:
    del server.env["BUTLER_OWNER_TOKEN"]
    return server


def test_the_first_start_makes_the_owners_token_and_the_second_keeps_it(make_butler: MakeButler) -> None:
    server = without_token(make_butler()).start()
    path = server.data / "owner.token"
    token = path.read_text().strip()
    assert len(token) >= 20
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    wait_until(lambda: any(token in line for line in server.stdout), "the address with the token is printed")
    assert server.client(token).get("/threads")["items"] == []
    assert server.stop() == 0
    server.start()
    assert path.read_text().strip() == token
    assert server.client(token).get("/threads")["items"] == []
    assert token not in server.stderr


def test_an_interrupt_from_the_keyboard_ends_it_cleanly(make_program: MakeButler) -> None:
    server = make_program().start()
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    assert server.died() == 0
    assert "Traceback" not in server.stderr


def test_every_fault_of_the_files_is_named_with_file_line_and_key(make_butler: MakeButler) -> None:
    server = make_butler()
    server.workshop.write_tools(
        tool("note_line", "allow"),
        tool("note_line", "allow"),
        tool("Bad Name", "allow"),
        tool("x", "perhaps"),
    )
    (server.config / "policy.yml").write_text("default: approve\nruels: []\n")
    server.launch()
    assert server.process is not None and server.process.stdout is not None
    with server.process.stdout as output:
        printed = output.read()
    assert server.died() == 2
    said = printed + server.stderr
    assert "Traceback" not in said
    faults = [line for line in said.splitlines() if re.search(r"\.yml:\d+: \S+: ", line)]
    assert len([line for line in faults if "tools.yml" in line]) >= 3, said
    [policy] = [line for line in faults if "policy.yml" in line]
    assert "policy.yml:2: ruels:" in policy
    assert "'rules'" in policy


def test_a_bad_setting_is_named(make_program: MakeButler) -> None:
    server = make_program(BUTLER_MAX_TOOL_ROUNDS="many")
    server.launch()
    assert server.process is not None and server.process.stdout is not None
    with server.process.stdout as output:
        printed = output.read()
    assert server.died() == 2
    assert "BUTLER_MAX_TOOL_ROUNDS" in printed + server.stderr
    assert "Traceback" not in server.stderr


def test_on_sigterm_a_running_turn_is_left_so_that_the_next_start_finishes_it(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    owner = server.client()
    gate = fresh("gate")
    started = owner.chat(f"[[hold {gate}]] [[say finished]]", wait=False)
    wait_until(lambda: model.requests(gate), "the model is asked")
    assert server.stop(30) == 0
    assert "Traceback" not in server.stderr
    model.release(gate)
    server.start()
    assert owner.when_run(started["run_id"], "done")["reply"] == "finished"
    roles = [role for role, _ in owner.transcript(started["thread_id"])]
    assert roles == ["user", "assistant"]
    assert owner.chat(fresh(), started["thread_id"])["status"] == "done"
