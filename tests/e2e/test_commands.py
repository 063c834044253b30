"""Slash commands: read by code, never by the model; the same policy holds for them."""

from __future__ import annotations

import json

import pytest

from tests.support.client import Client
from tests.support.orders import fresh, park
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.workshop import standard_tools, tool


@pytest.mark.parametrize("command", ["/help", "/tools", "/approvals"])
def test_a_question_to_the_code_is_answered_without_the_model(
    butler: ButlerServer, owner: Client, model: ScriptedModel, command: str
) -> None:
    outcome = owner.chat(command)
    assert (outcome["status"], outcome["error"]) == ("done", None)
    assert outcome["reply"]
    assert model.requests() == []


def test_tools_and_help_name_what_there_is(butler: ButlerServer, owner: Client) -> None:
    tools = owner.chat("/tools")["reply"]
    for name in ("append_line", "note_line", "burn_line", "delete_thing"):
        assert name in tools
    text = owner.chat("/help")["reply"]
    for name in ("/tools", "/approvals", "/approve", "/deny", "/new", "/compact"):
        assert name in text


def test_a_tool_command_parks_like_any_other_call(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    outcome = owner.chat(f"/append_line text={text}")
    assert outcome["status"] == "parked"
    [action] = outcome["approvals"]
    assert (action["tool"], action["args"]) == ("append_line", {"text": text})
    assert butler.workshop.effects(text) == []
    assert model.requests() == []
    owner.chat(f"/approve {action['code']}", outcome["thread_id"])
    owner.when_status(outcome["thread_id"], "idle")
    assert butler.workshop.effects(text) == [(action["action_id"], text)]


def test_a_tool_command_takes_json(butler: ButlerServer, owner: Client) -> None:
    text = fresh("two words and 'quotes' =")
    outcome = owner.chat(f"/note_line {json.dumps({'text': text})}")
    assert outcome["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_a_refused_tool_is_refused_as_a_command_too(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    outcome = owner.chat(f"/burn_line text={text}")
    assert outcome["status"] in ("done", "failed")
    assert outcome["approvals"] == []
    assert butler.workshop.effects(text) == []
    prod = owner.chat(f"/delete_thing target=prod-{text}")
    assert prod["approvals"] == []
    assert "off limits" in prod["reply"]


@pytest.mark.parametrize(
    "command",
    [
        "/append_line",
        "/append_line text",
        '/append_line {"text": 5}',
        '/append_line {"text": ',
        "/append_line words=x",
        "/append_line text=x more=y",
        "/append_line " + json.dumps({"text": "x" * 501}),
    ],
    ids=lambda text: text[:40],
)
def test_wrong_arguments_of_a_command_ask_nobody(
    butler: ButlerServer, owner: Client, model: ScriptedModel, command: str
) -> None:
    outcome = owner.chat(command)
    assert outcome["status"] in ("done", "failed")
    assert outcome["approvals"] == []
    assert outcome["reply"]
    assert model.requests() == []


@pytest.mark.parametrize("command", ["/frobnicate", "/", "/approve", "/approve ZZZZZZZZ", "/deny", "/APPEND_LINE"])
def test_a_command_that_cannot_be_done_says_why_without_the_model(
    butler: ButlerServer, owner: Client, model: ScriptedModel, command: str
) -> None:
    outcome = owner.chat(command)
    assert outcome["status"] == "failed"
    assert outcome["error"]["code"] and outcome["error"]["detail"]
    assert outcome["reply"]
    assert model.requests() == []


def test_deny_tells_the_reason_to_the_model(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(owner, text)
    owner.chat(f"/deny {parked['approvals'][0]['code']} not on a Sunday", parked["thread_id"])
    outcome = owner.when_run(parked["run_id"], "done")
    assert "not on a Sunday" in outcome["reply"]
    assert owner.approval(parked["approvals"][0]["action_id"])["status"] == "rejected"
    assert butler.workshop.effects(text) == []


def test_commands_are_answered_at_once_while_the_thread_is_parked(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh())
    for command in ("/help", "/tools", "/approvals"):
        response = owner.post("/chat", {"message": command, "thread_id": parked["thread_id"]})
        assert response.status_code == 200
        assert response.json()["reply"]
    listed = owner.chat("/approvals", parked["thread_id"])["reply"]
    assert parked["approvals"][0]["code"] in listed
    assert parked["approvals"][0]["args"]["text"] in listed
    assert owner.approvals(parked["thread_id"]) == parked["approvals"]


def test_an_approve_command_approves_one_of_several(butler: ButlerServer, owner: Client) -> None:
    one, two = fresh("one"), fresh("two")
    parked = park(owner, one, two)
    outcome = owner.chat(f"/approve {parked['approvals'][0]['code']}", parked["thread_id"])
    assert outcome["error"] is None
    assert [a["args"]["text"] for a in owner.approvals(parked["thread_id"])] == [two]
    assert butler.workshop.effects(two) == []


def test_approving_twice_by_command_says_it_was_decided(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    command = f"/approve {parked['approvals'][0]['code']}"
    owner.chat(command, parked["thread_id"])
    owner.when_status(parked["thread_id"], "idle")
    again = owner.chat(command, parked["thread_id"])
    assert again["status"] == "failed"
    assert again["error"]["code"] in ("already_decided", "not_found")
    assert len(butler.workshop.effects(text)) == 1


def test_a_member_cannot_approve_their_own_action_by_command(butler: ButlerServer, member: Client) -> None:
    text = fresh()
    parked = park(member, text)
    outcome = member.chat(f"/approve {parked['approvals'][0]['code']}", parked["thread_id"])
    assert (outcome["status"], outcome["error"]["code"]) == ("failed", "not_an_approver")
    assert member.approval(parked["approvals"][0]["action_id"])["status"] == "pending"
    assert butler.workshop.effects(text) == []


def test_what_the_model_says_is_never_a_command(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text, marker = fresh(), fresh("marker")
    parked = park(owner, text)
    code = parked["approvals"][0]["code"]
    model.reply(marker=marker, text=f"/approve {code}")
    owner.chat(marker)
    assert owner.approval(parked["approvals"][0]["action_id"])["status"] == "pending"


def test_the_talk_goes_on_after_commands(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    thread = owner.chat("/help")["thread_id"]
    owner.chat(f"/note_line text={fresh()}", thread)
    text = fresh()
    assert owner.chat(text, thread)["reply"].startswith(f"You said: {text}")


def test_compact_and_new_are_done_by_code(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    thread = owner.chat(fresh())["thread_id"]
    asked = len(model.requests())
    for command in ("/compact", "/new"):
        outcome = owner.chat(command, thread)
        assert (outcome["status"], outcome["error"]) == ("done", None)
    assert len(model.requests()) == asked


def test_without_a_model_commands_and_approvals_work_and_talk_says_what_is_missing(
    make_butler: MakeButler,
) -> None:
    server = make_butler(with_model=False).start()
    owner = server.client()
    failed = owner.chat("hello")
    assert (failed["status"], failed["error"]["code"]) == ("failed", "model_unavailable")
    assert owner.transcript(failed["thread_id"])[0] == ("user", "hello")
    assert owner.chat("/tools")["status"] == "done"
    assert owner.chat("/note_line text=one")["status"] == "done"
    parked = owner.chat("/append_line text=two")
    assert parked["status"] == "parked"
    assert owner.decided(parked["thread_id"], {"code": parked["approvals"][0]["code"], "decision": "approve"})
    owner.when_status(parked["thread_id"], "idle")
    assert [text for _, text in server.workshop.effects()] == ["one", "two"]


def test_a_typed_secret_argument_stands_neither_in_the_transcript_nor_in_the_title(make_butler: MakeButler) -> None:
    butler = make_butler()
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "pw": {"type": "string", "writeOnly": True}}}
    butler.workshop.write_tools(*standard_tools(), tool("set_pw", "approve") | {"input_schema": schema})
    butler.start()
    owner = butler.client()
    outcome = owner.chat("/set_pw text=x pw=planted-argument")
    said = owner.transcript(outcome["thread_id"])
    assert said[0] == ("user", '/set_pw {"pw":"***","text":"x"}')
    assert "planted-argument" not in str([said, owner.get(f"/threads/{outcome['thread_id']}")])
