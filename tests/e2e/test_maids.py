"""Delegated work end to end: a script maid in a worktree, checked by Butler, approved by a person, applied once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import Client, Json
from tests.support.maids import MaidShop, when_task
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("maids"), shared_model.url)
    made = MaidShop(server)
    server.start()
    yield made
    server.close()


@pytest.fixture(scope="module")
def owner(shop: MaidShop) -> Client:
    return shop.server.client()


@pytest.fixture(autouse=True)
def clean(shop: MaidShop) -> None:
    (shop.project / "out.txt").unlink(missing_ok=True)
    (shop.project / "more.txt").unlink(missing_ok=True)


def decide(owner: Client, task: Json, decision: str, **more: str) -> None:
    [waiting] = task["approvals"]
    response = owner.post(f"/approvals/{waiting['action_id']}", {"decision": decision, **more})
    assert response.status_code == 200, response.text


def test_an_approved_diff_is_applied_once_and_everything_is_cleaned_up(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good work")
    waiting = when_task(owner, ids["maid_run_id"], "waiting_approval")
    [shown] = waiting["approvals"]
    assert shown["tool"] == "session_complete"
    assert "+formatted" in shown["args"]["diff"]
    assert shown["args"]["checks"][0]["outcome"] == "passed"
    assert "edit" not in shown["allowed_decisions"]
    assert shop.out() is None
    decide(owner, waiting, "approve", fingerprint=shown["fingerprint"])
    done = when_task(owner, ids["maid_run_id"], "succeeded", "failed")
    assert done["status"] == "succeeded", done
    assert [one["status"] for one in done["attempts"]] == ["passed"]
    assert shop.out() == "formatted\n"
    outcome = owner.when_run(ids["run_id"], "done")
    assert "scripted" in outcome["reply"]
    assert shop.folders == [] and shop.worktrees == []
    assert owner.approval(shown["action_id"])["execution"] == "done"
