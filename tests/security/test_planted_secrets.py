"""Secrets planted wherever one can be, and then looked for wherever anybody may look."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.workshop import standard_tools, tool

API_TOKEN = "planted-model-token-9f31"
OWNER = "planted-owner-token-77aa"
PASSWORD = "planted-mail-password-c0de"
HOOK = "planted-hook-token-1b2c"
NOTIFY = "planted-notify-password-42"
HOUSE = (API_TOKEN, OWNER, PASSWORD, HOOK, NOTIFY)
ARGUMENT = "planted-secret-argument-55"
EDITED = "planted-edited-argument-66"
FORGED = "planted-forged-bearer-88"
_LEAK = """\
import os, sys
print("the password is " + os.environ["MAIL_PASSWORD"])
if sys.argv[1] == "fail":
    print("and " + os.environ["MAIL_PASSWORD"] + " on the way down", file=sys.stderr)
    sys.exit(3)
"""


def tools() -> list[Json]:
    """The standard ones, two that print a secret of the house, one with a secret argument, one with a header."""
    passed = ["PATH", "MAIL_PASSWORD"]
    leaks = [
        tool(name, "allow") | {"command": [sys.executable, "-S", "-E", "leak.py", mode, "{text}"], "env": passed}
        for name, mode in (("leak_line", "ok"), ("leak_badly", "fail"))
    ]  # fmt: skip
    secret = tool("set_pw", "approve")
    secret["input_schema"] = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "pw": {"type": "string", "writeOnly": True, "maxLength": 40}},
        "required": ["text", "pw"],
        "additionalProperties": False,
    }
    hook = {
        "name": "hook_line",
        "description": "Posts to a hook that is not there",
        "input_schema": secret["input_schema"],
        "http": {
            "method": "POST",
            "url": "http://127.0.0.1:9/x",
            "json": {"text": "{text}", "pw": "{pw}"},
            "headers": {"Authorization": "Bearer ${HOOK_LINE}"},
        },
        "verdict": "allow",
    }
    return [*standard_tools(), *leaks, secret, hook]


@dataclass
class House:
    """The server, its people, and everything that they were told."""

    server: ButlerServer
    owner: Client
    member: Client
    model: ScriptedModel
    told: list[str] = field(default_factory=list)

    def hear(self, response: httpx.Response) -> Json:
        """Keep an answer, headers and all."""
        self.told.append(f"{response.headers!r} {response.text}")
        body: Json = response.json() if response.headers.get("content-type") == "application/json" else {}
        return body

    def say(self, text: str) -> Json:
        """The owner says something; gives the Outcome."""
        return self.hear(self.owner.post("/chat", {"message": text}))

    def called(self, client: Client, tool: str, **args: object) -> Json:
        """The model calls a tool without having been told the arguments; gives the Outcome."""
        marker = fresh("please")
        self.model.reply(calls=[{"name": tool, "arguments": {"text": fresh(), **args}}], marker=marker)
        return self.hear(client.post("/chat", {"message": marker}))


@pytest.fixture
def house(make_butler: MakeButler, model: ScriptedModel) -> Iterator[House]:
    server = make_butler(
        BUTLER_API_TOKEN=API_TOKEN, BUTLER_OWNER_TOKEN=OWNER, MAIL_PASSWORD=PASSWORD, HOOK_LINE=HOOK,
        BUTLER_NOTIFY_URLS=f"json://butler:{NOTIFY}@127.0.0.1:9/",
    )  # fmt: skip
    (server.config / "leak.py").write_text(_LEAK)
    server.workshop.write_tools(*tools())
    server.start()
    yield House(server, server.client(OWNER), server.user_add("mia", "member"), model)


def test_no_planted_secret_shows_anywhere(house: House) -> None:
    tools_that_leak(house)
    secret_arguments(house)
    refusals(house)
    a_login(house)
    a_crash(house)
    everything_there_is_to_read(house)
    found = {
        secret: places
        for secret in (*HOUSE, ARGUMENT, EDITED, FORGED, str(house.member.token))
        if (places := [name for name, text in traces(house) if secret in text])
    }
    assert found == {}


def test_tokens_are_not_in_the_database(house: House) -> None:
    house.say(fresh())
    house.server.stop()
    raw = b"".join(path.read_bytes() for path in house.server.data.glob("*.db*"))
    for secret in (*HOUSE, str(house.member.token)):
        assert secret.encode() not in raw


def tools_that_leak(house: House) -> None:
    """Tools that print a secret, and a model that repeats one."""
    for name in ("leak_line", "leak_badly"):
        house.say(call(name, fresh()))
        with house.owner.stream("POST", "/chat", {"message": call(name, fresh())}) as events:
            house.told.append(json.dumps([event.data for event in events.rest()]))
    for secret in HOUSE:
        marker = fresh("echo")
        house.model.reply(text=f"Psst: {secret}", marker=marker)
        house.say(marker)
        called = fresh("echo")
        house.model.reply(calls=[{"name": "append_line", "arguments": {"text": f"{called} {secret}"}}], marker=called)
        outcome = house.say(called)
        decision = {"decision": "reject", "reason": f"It holds {secret}"}
        for _ in range(2):  # the second time it is decided already, and the answer says how
            house.hear(house.owner.post(f"/approvals/{outcome['approvals'][0]['action_id']}", decision))
        house.say(f"/note_line text={secret}")
        house.say(f"/remember I was remembered with {secret}")
        house.hear(house.owner.post("/memories", {"text": f"It is {secret}"}))


def secret_arguments(house: House) -> None:
    """A secret argument proposed, shown, edited, run, refused by a schema, and sent to where nobody listens."""
    parked = house.called(house.owner, "set_pw", pw=ARGUMENT)
    [action] = parked["approvals"]
    assert action["args"]["pw"] == "***"
    edit = {"decision": "edit", "args": {"text": fresh(), "pw": EDITED * 5}}
    house.hear(house.owner.post(f"/approvals/{action['action_id']}", edit))
    edit["args"] = {"text": fresh(), "pw": EDITED}
    house.hear(house.owner.post(f"/approvals/{action['action_id']}", edit))
    house.hear(house.owner.post(f"/approvals/{action['action_id']}", {"decision": "approve"}))
    house.owner.when_run(parked["run_id"], "done")
    house.called(house.owner, "set_pw", pw=ARGUMENT, more=ARGUMENT)
    house.called(house.owner, "set_pw", pw=[ARGUMENT])
    house.called(house.owner, "hook_line", pw=ARGUMENT)
    mine = house.called(house.member, "set_pw", pw=ARGUMENT)
    house.hear(
        house.member.post(f"/threads/{mine['thread_id']}/resume", {"decisions": [approve(mine["approvals"][0])]})
    )


def refusals(house: House) -> None:
    """Requests that are refused, with a secret in every part of them."""
    server, owner = house.server, house.owner
    for headers in ({"Authorization": f"Bearer {FORGED}"}, {"Cookie": f"butler_token={FORGED}"}):
        response = server.client(None).request("GET", "/threads", headers=headers)
        refused(response, 401, "unauthorized")
        house.hear(response)
    for body in (
        {"message": 5, "more": ARGUMENT}, {"message": "x", "if_parked": ARGUMENT}, {"message": {"pw": ARGUMENT}},
        {"message": "x", "wait": OWNER},
    ):  # fmt: skip
        response = owner.post("/chat", body)
        refused(response, 422, "invalid_request")
        house.hear(response)
    spoilt = f'{{"message": "x", "pw": "{ARGUMENT}" {OWNER}'
    house.hear(owner.request("POST", "/chat", content=spoilt, headers={"Content-Type": "application/json"}))
    house.hear(owner.request("GET", "/approvals", params={"cursor": ARGUMENT, "limit": OWNER}))


def a_login(house: House) -> None:
    """The way in of a browser: the token leaves no trace but the cookie."""
    with httpx.Client(base_url=house.server.url, trust_env=False) as browser:
        for token in (FORGED, OWNER):
            login = browser.get("/", params={"token": token})
            assert token not in login.text
            headers = {name: value for name, value in login.headers.items() if name != "set-cookie"}
            assert token not in repr(headers)
        house.hear(browser.get("/"))
        house.hear(browser.get("/threads"))


def a_crash(house: House) -> None:
    """Death between effect and receipt, with a secret argument in hand."""
    house.server.kill()
    house.server.start(BUTLER_CRASH_AT="effect_after")
    with suppress(httpx.TransportError):
        outcome = house.called(house.owner, "set_pw", pw=ARGUMENT)
        house.owner.post(f"/approvals/{outcome['approvals'][0]['action_id']}", {"decision": "approve"})
        house.owner.when_run(outcome["run_id"], "done")
    assert house.server.died() == -9
    house.server.start()
    house.owner.when_status(outcome["thread_id"], "parked")


def everything_there_is_to_read(house: House) -> None:
    """Every list, transcript, run and stream, and the audit in each of its forms."""
    for client in (house.owner, house.member):
        threads = house.hear(client.request("GET", "/threads", params={"limit": 200}))["items"]
        for thread in threads:
            house.hear(client.request("GET", f"/threads/{thread['thread_id']}"))
            lines = house.hear(client.request("GET", f"/threads/{thread['thread_id']}/messages"))["items"]
            for run in {line["run_id"] for line in lines if line.get("run_id")}:
                house.hear(client.request("GET", f"/runs/{run}"))
                house.hear(client.request("GET", f"/runs/{run}/events"))
        for approval in house.hear(client.request("GET", "/approvals", params={"limit": 200}))["items"]:
            house.hear(client.request("GET", f"/approvals/{approval['action_id']}"))
        house.hear(client.request("GET", "/grants"))
        house.hear(client.post("/chat", {"message": "/approvals"}))
        house.hear(client.post("/chat", {"message": "/tools"}))
        for path in ("/memory", "/memories", "/memories/export"):
            house.hear(client.request("GET", path))
        for words in (*HOUSE, "planted", "password", "remembered"):
            house.hear(client.request("GET", "/search", params={"query": words, "limit": 50}))
            for command in ("/search", "/search_history", "/memory", "/recall"):
                house.hear(client.post("/chat", {"message": f"{command} {words}"}))
    for media in ("application/json", "text/csv", "application/x-ndjson"):
        house.hear(house.owner.request("GET", "/audit", params={"limit": 1000}, headers={"Accept": media}))
    house.hear(house.owner.request("GET", "/readyz"))


def traces(house: House) -> Iterator[tuple[str, str]]:
    """Everywhere that somebody may look, by name."""
    yield "standard error", house.server.stderr
    yield "standard output", "".join(line for line in house.server.stdout if "?token=" not in line)
    yield from ((f"answer {number}: {text[:300]}", text) for number, text in enumerate(house.told))
    with closing(sqlite3.connect(house.server.data / "butler.db")) as file:
        for table in ("audit", "notifications", "sightings", "links", "tokens", "users"):
            for row in file.execute(f"SELECT * FROM {table}"):
                yield f"table {table}: {row!r}"[:300], repr(row)
