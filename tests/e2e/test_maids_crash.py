"""The server dies under a delegated task: nothing is lost, nothing runs or is applied twice, nothing is left (D7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.acp_launch import ask
from tests.support.client import Client, Json
from tests.support.maids import MaidShop, when_task
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("maids"), shared_model.url)
    made = MaidShop(server)
    wish = {
        "title": "write out.txt",
        "kind": "edit",
        "locations": [{"path": "out.txt"}],
        "rawInput": {"path": "out.txt"},
    }
    made.add_agent("asks", ask(wish), {"write": {"out.txt": "formatted\n"}}, limits={"permission_wait": 0.5})
    made.add_agent("patient", ask(wish), {"write": {"out.txt": "formatted\n"}}, limits={"permission_wait": 300})
    yield made
    server.close()


@pytest.fixture(autouse=True)
def clean(shop: MaidShop) -> None:
    (shop.project / "out.txt").unlink(missing_ok=True)


def approve(owner: Client, task: Json) -> None:
    [waiting] = task["approvals"]
    response = owner.post(f"/approvals/{waiting['action_id']}", {"decision": "approve"})
    assert response.status_code == 200, response.text


def check_done(shop: MaidShop, owner: Client, ids: Json) -> Json:
    task = when_task(owner, ids["maid_run_id"], "succeeded", "failed", "cancelled", "unverified")
    assert task["status"] == "succeeded", task
    assert owner.when_run(ids["run_id"], "done", "failed")["status"] == "done"
    assert shop.out() == "formatted\n"
    wait_until(lambda: not shop.folders and not shop.worktrees, "the trees of the task are gone")
    return task


def test_an_attempt_whose_server_was_killed_is_interrupted_and_counts(shop: MaidShop) -> None:
    owner = shop.server.start().client()
    ids = shop.begin(owner, "slowly at first")
    wait_until((shop.state / "began").exists, "the maid has begun")
    said = "I have read the task and begin\n"

    def noted() -> bool:
        [attempt] = owner.get(f"/maid-runs/{ids['maid_run_id']}")["attempts"]
        return bool(attempt.get("stdout_tail") == said)

    wait_until(noted, "what the maid has said is written down")
    shop.server.restart()
    assert not shop.grandchild_lives()
    waiting = when_task(owner, ids["maid_run_id"], "waiting_approval", "failed")
    assert [one["status"] for one in waiting["attempts"]] == ["interrupted", "passed"], waiting
    killed = waiting["attempts"][0]
    assert (killed["stdout_tail"], killed["spends"]) == (said, True) and killed["argv"] and killed["duration"] > 0
    assert shop.runs("slowly") == 2
    trees = [line for line in shop.worktrees if ids["maid_run_id"] in line]
    assert len(trees) == 2, "the tree of the interrupted attempt is kept until the task is over"
    # Parked: killed once more, it is still there and can be decided.
    shop.server.restart()
    approve(owner, when_task(owner, ids["maid_run_id"], "waiting_approval"))
    task = check_done(shop, owner, ids)
    assert [one["attempt"] for one in task["attempts"]] == [1, 2]


def test_a_server_that_is_asked_to_stop_leaves_no_maid_and_goes_on_later(shop: MaidShop) -> None:
    shop.server.kill()
    for name in ("began", "runs"):
        (shop.state / name).unlink(missing_ok=True)
    owner = shop.server.start().client()
    ids = shop.begin(owner, "slowly and stopped")
    wait_until((shop.state / "began").exists, "the maid has begun")
    assert shop.server.stop() == 0
    assert not shop.grandchild_lives()
    owner = shop.server.start().client()
    waiting = when_task(owner, ids["maid_run_id"], "waiting_approval", "failed")
    assert [one["status"] for one in waiting["attempts"]] == ["interrupted", "passed"], waiting
    approve(owner, waiting)
    check_done(shop, owner, ids)


@pytest.mark.parametrize(
    ("point", "runs", "statuses"),
    [
        ("maid_counted", 1, ["interrupted", "passed"]),
        ("maid_ended", 2, ["interrupted", "passed"]),
        ("maid_looked_at", 1, ["passed"]),
        ("maid_apply_before", 1, ["passed"]),
        ("maid_apply_step", 1, ["passed"]),
        ("maid_apply_after", 1, ["passed"]),
    ],
)
def test_a_task_survives_death_at(shop: MaidShop, point: str, runs: int, statuses: list[str]) -> None:
    before = shop.runs("good")
    shop.server.kill()
    owner = shop.server.start(BUTLER_CRASH_AT=point).client()
    ids = shop.begin(owner, f"good at {point}")
    if point.startswith("maid_apply"):
        approve(owner, when_task(owner, ids["maid_run_id"], "waiting_approval"))
    assert shop.server.died() == -9, f"{point} was not met"
    shop.server.start()
    if not point.startswith("maid_apply"):
        approve(owner, when_task(owner, ids["maid_run_id"], "waiting_approval", "failed"))
    task = check_done(shop, owner, ids)
    assert [one["status"] for one in task["attempts"]] == statuses
    assert shop.runs("good") - before == runs


def test_an_agents_question_outlives_the_agent_and_the_server(shop: MaidShop) -> None:
    shop.server.kill()
    owner = shop.server.start().client()
    ids = shop.begin(owner, "ask first", intent="asks")
    parked = owner.when_run(ids["run_id"], "parked")
    [asked] = parked["approvals"]
    assert asked["tool"] == "maid:asks:edit" and asked["args"]["paths"] == ["out.txt"]
    shop.server.restart()
    approve(owner, when_task(owner, ids["maid_run_id"], "waiting_approval"))

    def reviewed() -> Json | None:
        task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
        return task if task["approvals"] and task["approvals"][0]["tool"] == "session_complete" else None

    approve(owner, wait_until(reviewed, "the diff is shown"))
    task = check_done(shop, owner, ids)
    assert [(one["status"], one["spends"]) for one in task["attempts"]] == [("cancelled", False), ("passed", True)]
    assert [one["answer"] for one in task["attempts"][1]["permissions"]] == ["allow"]


def test_an_attempt_that_is_killed_while_its_maid_waits_for_a_person_is_not_spent(shop: MaidShop) -> None:
    shop.server.kill()
    owner = shop.server.start().client()
    ids = shop.begin(owner, "ask first", intent="patient")
    asked = when_task(owner, ids["maid_run_id"], "waiting_approval")
    shop.server.restart()
    parked = owner.when_run(ids["run_id"], "parked")
    assert [one["action_id"] for one in parked["approvals"]] == [one["action_id"] for one in asked["approvals"]]
    task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
    assert [(one["status"], one["spends"]) for one in task["attempts"]] == [("interrupted", False)]
    approve(owner, task)

    def reviewed() -> Json | None:
        task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
        return task if task["approvals"] and task["approvals"][0]["tool"] == "session_complete" else None

    approve(owner, wait_until(reviewed, "the diff is shown"))
    task = check_done(shop, owner, ids)
    assert [(one["status"], one["spends"]) for one in task["attempts"]] == [("interrupted", False), ("passed", True)]
