"""A day in the life: three people, five tools, about forty actions, a SIGKILL, a crash, and few questions.

What was done is kept beside the house, in a diary. In the evening the audit alone has to tell the same story.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.client import Client, Json, good, refused
from tests.support.crash import crash
from tests.support.orders import approve, call, reject
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

FEWER_THAN = 10
PROD = {
    "name": "production-is-off-limits",
    "tool": "delete_file",
    "args": {"path": "prod/*"},
    "verdict": "refuse",
    "reason": "Production is off limits",
}
RULES = (
    PROD,
    {"name": "looking-is-free", "tool": "run_command", "args": {"command": "git status*"}, "verdict": "allow"},
    {
        "name": "two-people-pay",
        "tool": "pay_invoice",
        "verdict": "approve",
        "reason": "Money leaves the house",
        "risk": "dangerous",
        "deciders": ["admin", "requester"],
        "approvals_needed": 2,
    },
)
FROZEN = {
    "name": "the-archive-is-frozen",
    "tool": "delete_file",
    "args": {"path": "archive/*"},
    "verdict": "refuse",
    "reason": "The auditors are in the house",
}


def tool(name: str, verdict: str, *arguments: str) -> Json:
    """A tool that writes one line of its name and arguments."""
    text = " ".join([name, *(f"{{{argument}}}" for argument in arguments)])
    return {
        "name": name,
        "description": name.replace("_", " "),
        "input_schema": {
            "type": "object",
            "properties": {argument: {"type": "string"} for argument in arguments},
            "required": list(arguments),
            "additionalProperties": False,
        },
        "command": [sys.executable, "-S", "-E", "tool.py", "append", text],
        "cwd": ".",
        "env": ["PATH"],
        "verdict": verdict,
    }


TOOLS = (
    tool("read_mail", "allow", "folder"),
    tool("send_mail", "approve", "to", "subject"),
    tool("delete_file", "approve", "path"),
    tool("run_command", "approve", "command"),
    tool("pay_invoice", "approve", "vendor", "amount"),
)


@dataclass
class Line:
    """What really happened to one action."""

    asked_by: str
    tool: str
    ran: bool
    asked: bool = False
    decided: list[tuple[str, str, str]] = field(default_factory=list)
    """(who, what, via) of each decision that was taken, in order."""


@dataclass
class Day:
    """The house, its people, and the diary by action id."""

    server: ButlerServer
    people: dict[str, Client]
    diary: dict[str, Line] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)

    def say(self, who: str, text: str) -> Json:
        """Say something in the person's own thread; gives the Outcome."""
        outcome = self.people[who].chat(text, self.threads.get(who))
        self.threads[who] = outcome["thread_id"]
        return outcome

    def orders(self, who: str, tool: str, **args: str) -> Json:
        """The model calls the tool at the person's word."""
        return self.say(who, call(tool, **args))

    def types(self, who: str, tool: str, **args: str) -> Json:
        """The person types the call."""
        return self.say(who, f"/{tool} {json.dumps(args)}")

    def free(self, who: str, tool: str, *, typed: bool = False, **args: str) -> None:
        """A call that nobody is asked about."""
        outcome = (self.types if typed else self.orders)(who, tool, **args)
        assert (outcome["status"], outcome["approvals"]) == ("done", []), outcome
        self.note_effects(who, tool)

    def refused(self, who: str, tool: str, why: str, **args: str) -> None:
        """A call that a rule refuses."""
        outcome = self.orders(who, tool, **args)
        assert (outcome["status"], outcome["approvals"]) == ("done", []), outcome
        assert why in outcome["reply"]

    def asks(self, who: str, tool: str, *, typed: bool = False, **args: str) -> Json:
        """A call that somebody is asked about; gives the Approval."""
        outcome = (self.types if typed else self.orders)(who, tool, **args)
        assert outcome["status"] == "parked", outcome
        [approval] = outcome["approvals"]
        self.diary[approval["action_id"]] = Line(who, tool, ran=False, asked=True)
        shown: Json = approval
        return shown

    def note_effects(self, who: str, tool: str) -> None:
        """Put into the diary what ran without a question."""
        for action_id, _ in self.server.workshop.effects():
            self.diary.setdefault(action_id, Line(who, tool, ran=True))

    def sees(self, who: str, approval: Json, *, typed: bool = False) -> None:
        """The person looks into the inbox, in the browser or by a command, and finds the question there."""
        if typed:
            assert approval["code"] in self.say(who, "/approvals")["reply"]
        else:
            listed = self.people[who].get("/approvals", status="pending")["items"]
            assert approval["action_id"] in [item["action_id"] for item in listed]

    def decided(self, action_id: str, who: str, what: str, via: str, *, ran: bool) -> None:
        """Put a decision into the diary."""
        line = self.diary[action_id]
        line.decided.append((who, what, via))
        line.ran = ran

    def rest(self, who: str) -> None:
        """Wait until the person's thread is idle."""
        self.people[who].when_status(self.threads[who], "idle")


@pytest.fixture
def day(make_butler: Any) -> Iterator[Day]:
    server: ButlerServer = make_butler()
    server.workshop.write_tools(*TOOLS)
    server.workshop.write_policy(*RULES)
    server.start()
    people = {"owner": server.client(), "mia": server.user_add("mia", "member"), "ada": server.user_add("ada", "admin")}
    yield Day(server, people)


def test_a_day_in_the_life(day: Day, model: ScriptedModel) -> None:
    the_post(day)
    tidying_up(day)
    commands(day)
    the_bill(day)
    overnight = day.asks("owner", "delete_file", path="archive/1999")
    the_house_burns_down(day)
    the_morning_after(day, overnight)
    an_unlucky_mail(day)
    each_effect_happened_once(day)
    the_audit_tells_the_story(day)


def the_post(day: Day) -> None:
    """Mia reads and answers mail; Ada grants her the team's addresses once."""
    for folder in ("inbox", "team", "bills"):
        day.free("mia", "read_mail", folder=folder)
        day.free("mia", "read_mail", typed=True, folder=f"{folder}/old")
    first = day.asks("mia", "send_mail", to="bob@house.example", subject="Lunch")
    refused(day.people["mia"].post(f"/approvals/{first['action_id']}", {"decision": "approve"}), 403, "not_an_approver")
    grant = {"scope": "user", "args": {"to": "*@house.example"}}
    day.sees("ada", first)
    good(day.people["ada"].post(f"/approvals/{first['action_id']}", approve_body(grant=grant)))
    day.decided(first["action_id"], "ada", "approve", "http", ran=True)
    day.rest("mia")
    for name in ("ann", "carl", "dora", "emil", "fay", "gus"):
        day.free("mia", "send_mail", to=f"{name}@house.example", subject="Lunch", typed=name < "d")
    outside = day.asks("mia", "send_mail", to="bob@evil.example", subject="Our passwords")
    day.sees("owner", outside, typed=True)
    day.say("owner", f"/deny {outside['code']} not to strangers")
    day.decided(outside["action_id"], "owner", "reject", "chat", ran=False)
    day.rest("mia")


def tidying_up(day: Day) -> None:
    """The owner deletes files; a grant as wide as can be does not reach production."""
    first = day.asks("owner", "delete_file", path="tmp/1")
    wish = {"scope": "everyone", "args": {"path": "*"}, "confirm": True}
    day.people["owner"].decided(day.threads["owner"], approve(first, grant=wish))
    day.decided(first["action_id"], "owner", "approve", "http", ran=True)
    for number in range(2, 7):
        day.free("owner", "delete_file", path=f"tmp/{number}")
    day.free("mia", "delete_file", path="tmp/7")
    for who in ("owner", "mia", "ada"):
        day.refused(who, "delete_file", "off limits", path=f"prod/{who}.db")
    [wide] = [one for one in day.people["owner"].get("/grants")["items"] if one["scope"] == "everyone"]
    assert day.people["owner"].request("DELETE", f"/grants/{wide['grant_id']}").status_code == 204
    asked = day.asks("owner", "delete_file", path="notes/1")
    edit = {"decision": "edit", "args": {"path": "prod/customers.db"}}
    day.sees("ada", asked)
    refused(day.people["ada"].post(f"/approvals/{asked['action_id']}", edit), 403, "forbidden")
    good(day.people["ada"].post(f"/approvals/{asked['action_id']}", edit | {"args": {"path": "notes/2"}}))
    day.decided(asked["action_id"], "ada", "edit", "http", ran=True)
    day.rest("owner")


def commands(day: Day) -> None:
    """Looking is free; what only begins like looking is not."""
    for _ in range(3):
        day.free("ada", "run_command", command="git status")
        day.free("mia", "run_command", typed=True, command="git status --short")
    trick = day.asks("mia", "run_command", command="git status; rm -rf .")
    day.sees("ada", trick)
    day.people["ada"].decided(trick["thread_id"], reject(trick, reason="nice try"))
    day.decided(trick["action_id"], "ada", "reject", "http", ran=False)


def the_bill(day: Day) -> None:
    """Money needs two people, and they must be two."""
    bill = day.asks("mia", "pay_invoice", vendor="Gasworks", amount="120 EUR")
    path = f"/approvals/{bill['action_id']}"
    day.sees("owner", bill)
    assert good(day.people["owner"].post(path, approve_body()))["approval"]["status"] == "pending"
    day.decided(bill["action_id"], "owner", "approve", "http", ran=False)
    refused(day.people["owner"].post(path, approve_body()), 409, "already_decided")
    refused(
        day.people["ada"].post(path, approve_body(grant={"scope": "everyone", "confirm": True})), 422, "invalid_request"
    )
    assert day.server.workshop.effects("pay_invoice Gasworks 120 EUR") == []
    day.sees("ada", bill, typed=True)
    day.say("ada", f"/approve {bill['code']}")
    day.decided(bill["action_id"], "ada", "approve", "chat", ran=True)
    day.rest("mia")


def the_house_burns_down(day: Day) -> None:
    """SIGKILL while something waits; it comes back with a stricter policy."""
    day.server.kill()
    day.server.workshop.write_policy(*RULES, FROZEN)
    day.server.start()


def the_morning_after(day: Day, overnight: Json) -> None:
    """What waited is still there; approving it can't beat what policy says by now."""
    assert day.people["owner"].approval(overnight["action_id"])["status"] == "pending"
    day.sees("ada", overnight)
    outcome = day.people["ada"].decided(overnight["thread_id"], approve(overnight))
    assert "auditors" in outcome["reply"]
    day.decided(overnight["action_id"], "ada", "approve", "http", ran=False)
    day.free("mia", "send_mail", to="hans@house.example", subject="We are back")
    for folder in ("inbox", "team", "bills"):
        day.free("mia", "read_mail", folder=folder)
    day.free("ada", "run_command", command="git status")


def an_unlucky_mail(day: Day) -> None:
    """Butler dies between the effect and its receipt: nobody repeats it, somebody is asked."""
    day.server.kill()
    crash(day.server, "effect_after", lambda _: day.orders("mia", "send_mail", to="ida@house.example", subject="Late"))
    day.server.start()
    thread = day.threads["mia"]
    day.people["ada"].when_status(thread, "parked")
    [unknown] = day.people["ada"].approvals(thread)
    assert unknown["execution"] == "unknown"
    day.diary[unknown["action_id"]] = Line("mia", "send_mail", ran=True, asked=True)
    body = {"decision": "respond", "response": "Ida says that it came."}
    good(day.people["ada"].post(f"/approvals/{unknown['action_id']}", body))
    day.decided(unknown["action_id"], "ada", "respond", "http", ran=True)
    day.rest("mia")


def approve_body(**more: Any) -> Json:
    return {"decision": "approve", **more}


def each_effect_happened_once(day: Day) -> None:
    effects = day.server.workshop.effects()
    assert Counter(action_id for action_id, _ in effects) == {
        action_id: 1 for action_id, line in day.diary.items() if line.ran
    }
    forbidden = [text for _, text in effects if "prod/" in text or "archive/" in text or ";" in text or "evil" in text]
    assert forbidden == []


def the_audit_tells_the_story(day: Day) -> None:
    """Who asked, who was shown it, who decided what through which channel, what ran: from the audit alone."""
    rows = day.people["owner"].get("/audit", limit=1000)["items"]
    told: dict[str, Line] = {}
    shown: dict[str, set[str]] = {}
    refusals: Counter[str] = Counter()
    verbs = {"approved": "approve", "approved_in_part": "approve", "edited": "edit", "rejected": "reject",
             "changes_requested": "reject", "responded": "respond"}  # fmt: skip
    for row in rows:
        action_id, event = row["action_id"], row["event"]
        if event in ("requested", "allowed") and action_id not in told:
            told[action_id] = Line(row["actor"], row["data"]["tool"], ran=False, asked=event == "requested")
        elif event == "refused" and action_id not in told:
            refusals[row["data"]["rule"]] += 1
        elif event == "unknown":
            told[action_id].asked = True
            told[action_id].ran = True
        elif event == "shown":
            shown.setdefault(action_id, set()).add(row["actor"])
        elif event in verbs:
            assert row["actor"] in shown[action_id], "nobody decides what they were not shown"
            told[action_id].decided.append((row["actor"], verbs[event], row["via"]))
        elif event == "done":
            told[action_id].ran = True
    assert told == day.diary
    assert refusals == {"production-is-off-limits": 3}
    attempts = [(row["actor"], row["data"]["code"]) for row in rows if row["event"] == "attempt_refused"]
    assert attempts == [("mia", "not_an_approver"), ("ada", "forbidden")]
    asked = [line for line in told.values() if line.asked]
    assert len(told) + refusals.total() >= 40
    assert len(asked) < FEWER_THAN
    verified = day.server.cli("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
