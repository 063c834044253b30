"""Delegated work end to end: a script maid in a worktree, checked by Butler, approved by a person, applied once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from butler.maids.store import MOST_UNFINISHED
from tests.support.client import Client, Json, refused
from tests.support.maids import MaidShop, when_task
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer
from tests.support.sockets import open_socket


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("maids"), shared_model.url)
    made = MaidShop(server)
    call = {"sessionUpdate": "tool_call", "title": "look", "kind": "read", "rawInput": {"path": "readme.txt"}}
    calls = [{"update": {**call, "toolCallId": f"t{number}", "status": "completed"}} for number in range(9)]
    made.add_agent("loops", *calls, {"leave": ["sleep", "300"]}, {"hang": True})
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


def nothing_is_left(shop: MaidShop) -> None:
    """Cleaning up follows the outcome."""
    wait_until(lambda: not shop.folders and not shop.worktrees, "the trees of the task are gone")


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
    nothing_is_left(shop)
    assert owner.approval(shown["action_id"])["execution"] == "done"


def test_a_loop_is_seen_in_what_the_maid_does_and_ends_it(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "look again and again", intent="loops")
    task = when_task(owner, ids["maid_run_id"], "failed", "waiting_approval", "succeeded")
    assert task["status"] == "failed" and len(task["attempts"]) <= 3, task
    assert {one["failure_class"] for one in task["attempts"]} == {"loop_detected"}
    assert "4 times" in task["attempts"][0]["failure"]["detail"]
    nothing_is_left(shop)


def test_a_small_task_is_not_delegated(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "ok")
    task = when_task(owner, ids["maid_run_id"], "not_delegated", "failed")
    assert task["status"] == "not_delegated"
    assert "max_instruction_chars" in task["reason"]
    assert task["attempts"] == []
    assert "Not delegated" in owner.when_run(ids["run_id"], "done")["reply"]


def test_a_rejected_diff_leaves_the_project_as_it_was(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good but unwanted")
    decide(owner, when_task(owner, ids["maid_run_id"], "waiting_approval"), "reject")
    task = when_task(owner, ids["maid_run_id"], "failed", "cancelled", "succeeded")
    assert task["status"] == "failed" and "rejected" in task["reason"]
    owner.when_run(ids["run_id"], "done")
    assert shop.out() is None
    nothing_is_left(shop)


def test_a_reason_beside_a_reject_is_one_more_attempt(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "feedback is welcome")
    first = when_task(owner, ids["maid_run_id"], "waiting_approval")
    decide(owner, first, "reject", reason="please add more")
    shown = first["approvals"][0]["action_id"]

    def second() -> Json | None:
        task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
        return task if task["approvals"] and task["approvals"][0]["action_id"] != shown else None

    again = wait_until(second, "the second review")
    assert [one["status"] for one in again["attempts"]] == ["passed", "passed"]
    assert again["attempts"][1]["feedback"] == "please add more"
    decide(owner, again, "approve")
    assert when_task(owner, ids["maid_run_id"], "succeeded", "failed")["status"] == "succeeded"
    assert (shop.project / "more.txt").read_text() == "with feedback"


def test_what_a_person_took_as_done_is_not_applied(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good enough")
    decide(owner, when_task(owner, ids["maid_run_id"], "waiting_approval"), "respond", response="I did it by hand")
    assert when_task(owner, ids["maid_run_id"], "succeeded", "failed")["status"] == "succeeded"
    owner.when_run(ids["run_id"], "done")
    assert shop.out() is None
    nothing_is_left(shop)


def test_a_conflict_shows_both_sides_and_can_be_tried_again(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good with a conflict")
    first = when_task(owner, ids["maid_run_id"], "waiting_approval")
    (shop.project / "out.txt").write_text("mine\n")
    decide(owner, first, "approve")
    shown = first["approvals"][0]["action_id"]

    def second() -> Json | None:
        task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
        return task if task["approvals"] and task["approvals"][0]["action_id"] != shown else None

    again = wait_until(second, "the question about the conflict")
    [conflict] = again["approvals"][0]["args"]["conflicts"]
    assert "out.txt" in str(conflict["files"])
    assert shop.out() == "mine\n"
    (shop.project / "out.txt").unlink()
    decide(owner, again, "approve")
    assert when_task(owner, ids["maid_run_id"], "succeeded", "failed")["status"] == "succeeded"
    assert shop.out() == "formatted\n"


def test_the_command_line_cancels_a_task(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good work")
    when_task(owner, ids["maid_run_id"], "waiting_approval")
    done = shop.server.cli("maids", "cancel", ids["maid_run_id"])
    assert (done.returncode, done.stdout) == (0, f"maid run {ids['maid_run_id']} is being cancelled\n")
    when_task(owner, ids["maid_run_id"], "cancelled")
    assert shop.server.cli("maids", "cancel", "no-such-id").returncode == 5
    nothing_is_left(shop)


def test_cancelling_ends_the_maid_and_all_its_children(shop: MaidShop, owner: Client) -> None:
    (shop.state / "began").unlink(missing_ok=True)
    ids = shop.begin(owner, "slow work")
    wait_until((shop.state / "began").exists, "the maid has begun")
    assert owner.post(f"/maid-runs/{ids['maid_run_id']}/cancel", {}).status_code == 202
    assert owner.when_run(ids["run_id"], "cancelled")["status"] == "cancelled"
    task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
    assert task["status"] == "cancelled"
    assert [one["status"] for one in task["attempts"]] == ["cancelled"]
    assert not shop.grandchild_lives()
    nothing_is_left(shop)


def test_a_maid_that_kills_what_watches_over_it_leaves_nothing_and_has_failed(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "escape with good work")
    task = when_task(owner, ids["maid_run_id"], "failed", "waiting_approval", "succeeded")
    assert task["status"] == "failed", task
    [attempt] = task["attempts"]
    assert (attempt["failure_class"], attempt["checks"][0]["outcome"]) == ("policy_violation", "passed")
    wait_until(lambda: not shop.grandchild_lives(), "the server has let go of what it adopted")
    nothing_is_left(shop)


def test_a_task_that_waits_can_be_cancelled(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "good but late")
    waiting = when_task(owner, ids["maid_run_id"], "waiting_approval")
    assert owner.post(f"/maid-runs/{ids['maid_run_id']}/cancel", {}).status_code == 202
    assert owner.when_run(ids["run_id"], "cancelled")["approvals"] == []
    assert owner.get(f"/maid-runs/{ids['maid_run_id']}")["status"] == "cancelled"
    assert owner.approval(waiting["approvals"][0]["action_id"])["status"] == "cancelled"
    assert shop.out() is None
    nothing_is_left(shop)


def test_deleting_the_thread_ends_the_maid_and_leaves_nothing(shop: MaidShop, owner: Client) -> None:
    (shop.state / "began").unlink(missing_ok=True)
    ids = shop.begin(owner, "slow work")
    wait_until((shop.state / "began").exists, "the maid has begun")
    assert owner.request("DELETE", f"/threads/{ids['thread_id']}").status_code == 204
    refused(owner.request("GET", f"/maid-runs/{ids['maid_run_id']}"), 404, "not_found")
    assert not shop.grandchild_lives()
    nothing_is_left(shop)


def test_bad_input_is_refused_at_once(shop: MaidShop, owner: Client) -> None:
    good: Json = {"intent": "format", "instruction": "good work", "project_root": str(shop.project)}
    refused(owner.post("/maids/run", {**good, "maid_id": "nobody"}), 404, "not_found")
    refused(owner.post("/maids/run", {**good, "project_root": str(shop.server.home)}), 403, "forbidden")
    refused(owner.post("/maids/run", {**good, "model": "gpt"}), 422, "invalid_request")
    refused(owner.post("/maids/run", {**good, "expect": {"file_checks": [{"path": "/etc/x"}]}}), 422, "invalid_request")
    refused(owner.request("GET", "/maid-runs/none"), 404, "not_found")


def test_too_many_unfinished_tasks_of_one_person_are_refused_and_leave_nothing(shop: MaidShop) -> None:
    busy = shop.server.user_add("ben", "member")
    ids = shop.begin(busy, "good and waiting")
    when_task(busy, ids["maid_run_id"], "waiting_approval")
    names = "thread_id, run_id, requester_id, requested_by, intent, instruction, project_root, constraints, created_at"
    with closing(sqlite3.connect(shop.server.data / "butler.db")) as database, database:
        for number in range(1, MOST_UNFINISHED):
            database.execute(
                f"INSERT INTO maid_runs (maid_run_id, status, updated_at, {names}) "
                f"SELECT ?, 'running', updated_at, {names} FROM maid_runs WHERE maid_run_id = ?",
                (f"more-{number}", ids["maid_run_id"]),
            )
    before = len(busy.get("/threads")["items"])
    task = {"intent": "format", "instruction": "good", "project_root": str(shop.project)}
    refused(busy.post("/maids/run", task), 429, "rate_limited")
    assert len(busy.get("/threads")["items"]) == before
    assert busy.post(f"/maid-runs/{ids['maid_run_id']}/cancel", {}).status_code == 202
    busy.when_run(ids["run_id"], "cancelled")
    again = shop.begin(busy, "ok")
    assert when_task(busy, again["maid_run_id"], "not_delegated")["status"] == "not_delegated"
    nothing_is_left(shop)


def test_somebody_elses_task_is_not_there(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "ok")
    other = shop.server.user_add("mia", "member")
    refused(other.request("GET", f"/maid-runs/{ids['maid_run_id']}"), 404, "not_found")
    assert other.get("/maid-runs")["items"] == []
    assert ids["maid_run_id"] in [one["maid_run_id"] for one in owner.get("/maid-runs")["items"]]
    assert owner.get("/maids")["items"][0]["maid_id"] == "scripted"


def test_delegate_is_typed_in_chat_and_tells_how_it_goes(shop: MaidShop, owner: Client) -> None:
    outcome = owner.chat('/delegate {"intent": "format", "instruction": "good in chat"}')
    assert outcome["status"] == "parked"
    [waiting] = outcome["approvals"]
    body = {"decisions": [{"action_id": waiting["action_id"], "decision": "approve"}]}
    with owner.stream("POST", f"/threads/{outcome['thread_id']}/resume", body) as events:
        told = [(event.event, event.data) for event in events]
    assert ("maid", "applied") in [(name, data.get("phase")) for name, data in told]
    assert told[-1][0] == "end" and told[-1][1]["status"] == "done"
    assert shop.out() == "formatted\n"
    refused_call = owner.chat("/session_complete {}")
    assert refused_call["status"] == "failed"


def test_a_socket_is_told_how_delegated_work_goes(shop: MaidShop, owner: Client) -> None:
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload='/delegate {"intent": "format", "instruction": "good over a socket"}')
        asked = next(one for one in admin.turn() if one["type"] == "AUTH_REQUEST")
        admin.send(type="AUTH_RESPONSE", action_id=asked["action_id"], approved=True)
        admin.turn()
        told = [one["data"] for one in admin.received if one.get("event") == "maid"]
    phases = [one["phase"] for one in told]
    assert "applied" in phases and phases[-1] == "succeeded"
    assert len({one["maid_run_id"] for one in told}) == 1
    assert shop.out() == "formatted\n"


def test_the_command_line_delegates_waits_and_says_by_its_status_how_it_went(shop: MaidShop, owner: Client) -> None:
    told = shop.server.cli("maids", "run", "format", "good from a shell", "--project", str(shop.project), "--wait")
    assert told.returncode == 3 and "butler approve " in told.stdout, told.stderr
    maid_run_id = told.stdout.split()[2].rstrip(":")
    decide(owner, owner.get(f"/maid-runs/{maid_run_id}"), "approve")
    when_task(owner, maid_run_id, "succeeded")
    shown = shop.server.cli("maids", "show", maid_run_id, "--diff")
    assert shown.returncode == 0 and "succeeded" in shown.stdout and "+formatted" in shown.stdout
