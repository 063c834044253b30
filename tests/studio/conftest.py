"""One dev server for the session, on data that a Butler server has made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from langgraph_sdk.client import SyncLangGraphClient

from tests.conftest import STANDARD_RULES
from tests.support.maids import MaidShop
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer
from tests.support.studio import DevServer


@dataclass(frozen=True)
class Lab:
    """The dev server, and what the Butler server left: a talk, a thread to decide, one that nobody decides."""

    butler: ButlerServer
    shop: MaidShop
    dev: DevServer
    talk: str
    parked: str
    waiting: str
    member: str
    client: SyncLangGraphClient


@pytest.fixture(scope="session")
def lab(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Made once: a Butler server, then the dev server on the same data."""
    butler = ButlerServer(tmp_path_factory.mktemp("studio"), shared_model.url)
    butler.workshop.write_policy(*STANDARD_RULES)
    shop = MaidShop(butler)
    butler.start()
    owner = butler.client()
    talk = owner.chat("good morning")["thread_id"]
    parked = owner.chat("/append_line text=from-the-server")["thread_id"]
    waiting = owner.chat("/append_line text=never-decided")["thread_id"]
    member = butler.cli("user", "add", "mia", "--role", "member").stdout.split()[-1]
    butler.stop()
    dev = DevServer(butler)
    try:
        dev.start()
        with dev.client() as client:
            yield Lab(butler, shop, dev, talk, parked, waiting, member, client)
    finally:
        dev.stop()
        butler.close()


@pytest.fixture
def client(lab: Lab, model: ScriptedModel, request: pytest.FixtureRequest) -> Iterator[SyncLangGraphClient]:
    """The official client with the owner's token; what the dev server said goes with a failing test's report."""
    before = len(lab.dev.told)
    yield lab.client
    request.node.add_report_section("teardown", "dev server", lab.dev.told[before:][-6000:])
