"""One server with Goose in all its ways for the tests of a module; the project is as new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.agents import ACP, RUN, AgentShop, goose_row
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


@pytest.fixture(scope="module")
def goose_shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentShop]:
    url = shared_model.url
    rows = [
        goose_row("acp", ACP, url, permission="allow"),
        goose_row("asks", ACP, url, permission="approve"),
        goose_row("impatient", ACP, url, permission="approve", limits={"permission_wait": 1}),
        goose_row("runs", RUN, url),
    ]
    # One attempt, and a provider's trouble is not waited out: what is of interest is how the first one is judged.
    retry = {"max_attempts": 2, "retry_on": ["wrong_output"]}
    server = ButlerServer(tmp_path_factory.mktemp("goose"), url)
    yield AgentShop(server, rows, retry)
    server.close()


@pytest.fixture
def shop(goose_shop: AgentShop, model: ScriptedModel, request: pytest.FixtureRequest) -> Iterator[AgentShop]:
    goose_shop.restore()
    yield goose_shop
    request.node.add_report_section("teardown", "butler stderr", goose_shop.server.tail)
