"""Fixtures for every test: the scripted model, and server processes that stand on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.forks import close_mother
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # as the server does, for tests in this process


@pytest.fixture(scope="session", autouse=True)
def forked_processes() -> Iterator[None]:
    """End what forks the servers, when all tests are over."""
    yield
    close_mother()


@pytest.fixture(scope="session")
def shared_model() -> Iterator[ScriptedModel]:
    """One scripted endpoint for the whole session."""
    made = ScriptedModel()
    yield made
    made.stop()


@pytest.fixture
def model(shared_model: ScriptedModel) -> Iterator[ScriptedModel]:
    """The scripted endpoint, empty; afterwards no history sent to it may have been broken."""
    shared_model.reset()
    yield shared_model
    problems = shared_model.problems()
    shared_model.reset()
    assert problems == []


@pytest.fixture
def make_butler(model: ScriptedModel, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeButler]:
    """Makes fresh installations, not started yet; all end with the test."""
    made: list[ButlerServer] = []

    def make(*, with_model: bool = True, **env: str) -> ButlerServer:
        home = tmp_path / f"butler{len(made)}"
        home.mkdir()
        made.append(ButlerServer(home, model.url if with_model else None, env))
        return made[-1]

    yield make
    for server in made:
        server.close()
        request.node.add_report_section("teardown", "butler stderr", server.stderr[-4000:])


@pytest.fixture(scope="module")
def shared_butler(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ButlerServer]:
    """One running server for all tests of a module that don't mind each other's threads."""
    server = ButlerServer(tmp_path_factory.mktemp("butler"), shared_model.url)
    server.workshop.write_policy(*STANDARD_RULES)
    server.start()
    yield server
    server.close()


@pytest.fixture
def butler(shared_butler: ButlerServer, model: ScriptedModel, request: pytest.FixtureRequest) -> Iterator[ButlerServer]:
    """The module's server; its new standard error goes with a failing test's report."""
    before = len(shared_butler.stderr)
    yield shared_butler
    request.node.add_report_section("teardown", "butler stderr", shared_butler.stderr[before:][-4000:])


@pytest.fixture(scope="module")
def owner(shared_butler: ButlerServer) -> Client:
    """The owner (an admin) at the module's server."""
    return shared_butler.client()


@pytest.fixture(scope="module")
def member(shared_butler: ButlerServer) -> Client:
    """A member at the module's server."""
    return shared_butler.user_add("mia", "member")


STANDARD_RULES = (
    {
        "name": "never-touch-prod",
        "tool": "delete_*",
        "args": {"target": "prod-*"},
        "verdict": "refuse",
        "reason": "Production is off limits",
    },
    {
        "name": "drafts-are-the-requesters",
        "tool": "delete_*",
        "args": {"target": "draft-*"},
        "verdict": "approve",
        "reason": "A draft may be deleted by whoever asked",
        "deciders": ["requester"],
    },
    {
        "name": "deletes-need-an-admin",
        "tool": "delete_*",
        "verdict": "approve",
        "reason": "Deleting cannot be undone",
        "risk": "dangerous",
        "deciders": ["admin"],
    },
    {
        "name": "free-lines",
        "tool": "append_line",
        "args": {"text": "free *"},
        "verdict": "allow",
    },
    {
        "name": "free-but-not-this",
        "tool": "append_line",
        "args": {"text": "free but *"},
        "verdict": "approve",
        "reason": "Not quite free",
    },
)
