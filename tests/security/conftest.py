"""One house with people of every role for all tests of this package that change nothing for each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.stage import Stage, people
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


@pytest.fixture(scope="module")
def stage(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The house, running."""
    server = ButlerServer(tmp_path_factory.mktemp("stage"), shared_model.url)
    (server.home / "project").mkdir()
    (server.config / "maid_registry.yml").write_text('project_roots: ["~/project"]\n')
    server.start()
    yield Stage(server, people(server))
    server.close()
