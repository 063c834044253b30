"""Goose of another project asks Butler over MCP: it delegates, a person decides elsewhere, it hears the outcome."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.agents import GOOSE, installed, order
from tests.support.client import Json
from tests.support.maids import MaidShop, when_task
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ROOT, ButlerServer

RUN = ("run", "--no-session", "--max-turns", "5", "-q", "-t")


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("asked"), shared_model.url)
    made = MaidShop(server)
    server.start()
    yield made
    server.close()


def stdio(server: ButlerServer, token: str) -> Json:
    """`butler mcp`, started by Goose."""
    # Goose lets nobody set PYTHONPATH.
    args = [f"PYTHONPATH={ROOT}", sys.executable, "-m", "service.cli", "mcp"]
    return {"type": "stdio", "cmd": "env", "args": args, "envs": {"BUTLER_URL": server.url, "BUTLER_TOKEN": token}}


def http(server: ButlerServer, token: str) -> Json:
    """`/mcp` with a header."""
    return {"type": "streamable_http", "uri": f"{server.url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}


@pytest.mark.parametrize("way", [stdio, http], ids=["stdio", "http"])
def test_goose_delegates_and_hears_what_a_person_decided(
    shop: MaidShop, model: ScriptedModel, tmp_path: Path, way: Callable[[ButlerServer, str], Json]
) -> None:
    name = f"mia-{way.__name__}"
    owner, mia = shop.server.client(), shop.server.user_add(name, "member")
    extension = {"enabled": True, "name": "butler", "timeout": 120, **way(shop.server, str(mia.token))}
    config = tmp_path / "goose" / "config"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text(yaml.safe_dump({"extensions": {"butler": extension}}))
    env = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GOOSE_PATH_ROOT": str(tmp_path / "goose"),
        "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "scripted", "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_DISABLE_SESSION_NAMING": "true", "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": model.url.removesuffix("/v1"), "OPENAI_API_KEY": "sk-of-goose",
    }  # fmt: skip

    def goose(words: str) -> str:
        argv = [installed(GOOSE, ".agents/.installed"), *RUN, words]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = goose(order("butler__delegate", intent="format", instruction="good work", project_root=str(shop.project)))
    found = re.search(r'"maid_run_id":"([^"]+)"', said)
    assert found, said
    task = when_task(owner, found[1], "waiting_approval")
    assert task["requested_by"] == name
    assert '"code":"not_an_approver"' in goose(
        order("butler__session_complete", maid_run_id=found[1], decision="approve")
    )
    [waiting] = task["approvals"]
    assert owner.post(f"/approvals/{waiting['action_id']}", {"decision": "approve"}).status_code == 200
    when_task(owner, found[1], "succeeded")
    assert shop.out() == "formatted\n"
    (shop.project / "out.txt").unlink()
    assert '"status":"succeeded"' in goose(order("butler__maid_run_status", maid_run_id=found[1]))
