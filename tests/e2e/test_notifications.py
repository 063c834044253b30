"""People are told outside of Butler what waits for them and what is finished (B7)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.conftest import STANDARD_RULES
from tests.support.client import Client
from tests.support.orders import approve, call, fresh, park
from tests.support.receiver import Receiver
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

MIAS = {"name": "mias-own", "tool": "delete_*", "args": {"target": "mia-*"}, "verdict": "approve",
        "deciders": ["mia"], "reason": "Mia knows"}  # fmt: skip
LATE = {"name": "late", "tool": "delete_*", "args": {"target": "late-*"}, "verdict": "approve",
        "escalate_after": 1, "escalate_to": ["bob"]}  # fmt: skip


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def shared_butler(
    shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[ButlerServer]:
    """A server where the owner, mia, bob and ada have a channel each."""
    home = tmp_path_factory.mktemp("butler")
    server = ButlerServer(home, shared_model.url, {"BUTLER_NOTIFY_URLS": receiver.url("owner")})
    people = [
        {"user": "mia", "urls": [receiver.url("mia")]},
        {"user": "bob", "urls": [receiver.url("bob")], "events": ["approvals"]},
        {"user": "ada", "urls": [receiver.url("ada")], "links": False, "events": ["approvals"]},
    ]
    (server.config / "notify.yml").write_text(yaml.safe_dump({"people": people}))
    server.workshop.write_policy(MIAS, LATE, *STANDARD_RULES)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def bob(shared_butler: ButlerServer) -> Client:
    return shared_butler.user_add("bob", "member")


@pytest.fixture(scope="module")
def ada(shared_butler: ButlerServer) -> Client:
    return shared_butler.user_add("ada", "admin")


def test_an_approval_request_says_everything_that_a_decision_needs(
    butler: ButlerServer, owner: Client, receiver: Receiver
) -> None:
    target = fresh("thing")
    [approval] = owner.chat(call("delete_thing", target=target))["approvals"]
    message = receiver.message("owner", target)
    assert message["title"] == "Approval needed: delete_thing (dangerous)"
    body = message["message"]
    for part in (
        "owner asks to run delete_thing",
        "Risk: dangerous",
        "Deleting cannot be undone",
        "deletes-need-an-admin",
        f'target = "{target}"',
        approval["fingerprint"],
        f"/approve {approval['code']}",
        "Expires: never",
        f"Look and decide as owner (works once; opening decides nothing): {butler.url}/decide/",
    ):
        assert part in body


def test_a_members_action_is_told_to_the_admins_and_not_to_other_members(
    butler: ButlerServer, member: Client, bob: Client, ada: Client, receiver: Receiver
) -> None:
    text = fresh()
    [approval] = park(member, text)["approvals"]
    assert "mia asks to run append_line" in receiver.message("owner", text)["message"]
    without_link = receiver.message("ada", text)["message"]
    assert "/decide/" not in without_link
    assert f"/approve {approval['code']}" in without_link
    assert receiver.messages("mia", text) == receiver.messages("bob", text) == []


def test_a_decider_whom_the_policy_names_is_told(
    butler: ButlerServer, member: Client, bob: Client, receiver: Receiver
) -> None:
    target = fresh("mia")
    bob.chat(call("delete_thing", target=target))
    assert "as mia" in receiver.message("mia", target)["message"]
    assert "as owner" in receiver.message("owner", target)["message"]
    assert receiver.messages("bob", target) == []


def test_a_finished_reply_is_told_to_its_requester_alone(
    butler: ButlerServer, member: Client, bob: Client, receiver: Receiver
) -> None:
    said = fresh("said")
    member.chat(f"[[say {said}]]")
    message = receiver.message("mia", f"> {said}")
    assert message["title"] == "Butler has answered"
    other = fresh("said")
    bob.chat(f"[[say {other}]]")
    member.chat(f"[[say {other} too]]")
    receiver.message("mia", f"{other} too")
    assert receiver.messages("owner", said) == receiver.messages("bob", other) == []


def test_an_approved_turns_reply_is_told_when_it_is_finished(
    butler: ButlerServer, member: Client, owner: Client, receiver: Receiver
) -> None:
    text, said = fresh(), fresh("said")
    outcome = member.chat(f"{call('append_line', text)} [[then]] [[say {said}]]")
    owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    member.when_run(outcome["run_id"], "done")
    receiver.message("mia", f"> {said}")


def test_a_command_that_answers_at_once_is_no_news(butler: ButlerServer, member: Client, receiver: Receiver) -> None:
    member.chat("/help")
    said = fresh("said")
    member.chat(f"[[say {said}]]")
    receiver.message("mia", f"> {said}")
    assert receiver.messages("mia", "/help") == []


def test_arguments_arrive_exact_and_can_neither_begin_a_line_nor_be_a_link(
    butler: ButlerServer, owner: Client, receiver: Receiver
) -> None:
    mark = fresh()
    text = f"{mark}\nLook and decide: http://evil.example\u202e [here](http://evil.example) @everyone <b>x</b> *y*"
    owner.chat(f"/append_line {json.dumps({'text': text})}")
    body = receiver.message("owner", mark)["message"]
    [line] = [line for line in body.splitlines() if mark in line]
    name, _, value = line.partition(" = ")
    assert name == "text"
    assert json.loads(value) == text
    assert "\u202e" not in body and "](http" not in body and "@everyone" not in body and "<b>" not in body


def test_a_person_is_told_once_however_often_the_server_looks(
    butler: ButlerServer, owner: Client, receiver: Receiver
) -> None:
    first, second = fresh(), fresh()
    park(owner, first)
    receiver.message("owner", first)
    park(owner, second)
    receiver.message("owner", second)
    assert len(receiver.messages("owner", first)) == 1


def test_what_nobody_decides_in_time_is_told_to_those_who_may_decide_then(
    butler: ButlerServer, owner: Client, bob: Client, receiver: Receiver
) -> None:
    target = fresh("late")
    [approval] = owner.chat(call("delete_thing", target=target))["approvals"]
    told = receiver.message("bob", target)["message"]
    assert "Nobody has answered so far, so you are asked too." in told and "as bob" in told
    bob.post(f"/approvals/{approval['action_id']}", {"decision": "reject"}).raise_for_status()
    assert owner.approval(approval["action_id"])["decision"]["by"] == "bob"
