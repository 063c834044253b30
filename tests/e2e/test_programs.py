"""Each family of commands as a program of its own, ``python -m service.cli``, says what it says when it is forked."""

from __future__ import annotations

import pytest

from tests.support.server import ButlerServer, MakeButler

COMMANDS = ("audit verify", "doctor", "memory list --user mia", "notify list", "policy check", "user list")
"""Beside these the examples of the shell page run approvals, approve, grants and threads as programs."""


@pytest.fixture
def server(make_butler: MakeButler) -> ButlerServer:
    """An installation with a database; nothing runs."""
    server = make_butler(with_model=False)
    server.user_add("mia", "member")
    return server


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_the_same_as_a_program_and_forked(server: ButlerServer, command: str) -> None:
    forked = server.cli(*command.split())
    server.own_interpreter = True
    program = server.cli(*command.split())
    assert "Traceback" not in program.stderr
    assert (program.returncode, program.stdout, program.stderr) == (forked.returncode, forked.stdout, forked.stderr)
    assert program.stdout
