"""What both ways of starting Goose have to come through."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents import DONE, GOOSE, HELLO, KEY, AgentShop, asked, order
from tests.support.client import Json
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel


@dataclass(frozen=True)
class Trouble:
    """A model that fails always, and the class that the attempt has to end in."""

    name: str
    reply: Json
    failure_class: str


HALF: Json = {"name": "shell", "arguments": {"command": "echo half > half.txt"}}
FULL = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
TROUBLES = (
    Trouble("wrong key", {"status": 401}, "provider_error"),
    Trouble("rate limit", {"status": 429, "retry_after": "0"}, "provider_error"),
    Trouble("server error", {"status": 500}, "provider_error"),
    Trouble("full context", {"status": 400, "error": FULL, "code": "context_length_exceeded"}, "provider_error"),
    Trouble("empty answer", {"text": ""}, "no_changes"),
    Trouble("made-up success", {"text": "Done! I have created hello.txt, and all tests pass."}, "false_completion"),
)
"""To all of these Goose says ``end_turn`` or exit status 0, a wrong key apart."""


def work_is_done(shop: AgentShop, model: ScriptedModel, intent: str) -> None:
    """A task is done, verified, approved and applied, and the agent never sees the key."""
    env = order("shell", command="env > .env-seen; cat .env-seen | sort > seen.txt; rm .env-seen")
    task = shop.when(shop.begin(intent, f"{HELLO}[[then]]{env}[[then]]{DONE}"), "waiting_approval", "failed")
    assert task["status"] == "waiting_approval", task
    assert shop.read() is None
    [attempt] = task["attempts"]
    assert (attempt["status"], attempt["verification"]) == ("passed", "passed")
    assert attempt["claim"] == "I have created hello.txt."
    assert attempt["left_behind"] == 0
    asked = shop.decide(task, "approve")
    assert asked["tool"] == "session_complete"
    assert "+hello world" in asked["args"]["diff"]
    assert shop.when(task, "succeeded", "failed")["status"] == "succeeded"
    shop.clean()
    assert shop.read() == "hello world\n"
    seen = shop.read("seen.txt")
    assert seen is not None and f"MAID_RUN={attempt['attempt_id']}" in seen
    assert KEY not in seen and "BUTLER_" not in seen
    assert {one["headers"]["authorization"] for one in model.requests()} == {f"Bearer {KEY}"}


def model_fails(shop: AgentShop, model: ScriptedModel, intent: str, trouble: Trouble, seconds: float = 60.0) -> None:
    """Butler never takes it for success, and says what it was."""
    model.reply(times=0, **trouble.reply)
    task = shop.ended(intent, "create hello.txt", seconds=seconds)
    assert task["status"] == "failed", task
    [attempt] = task["attempts"]
    assert attempt["failure_class"] == trouble.failure_class, attempt
    assert attempt["diff"] == "" and shop.read() is None
    troubled = [one["status"] for one in attempt["provider_troubles"]]
    assert set(troubled) == ({trouble.reply["status"]} if "status" in trouble.reply else set())
    assert KEY not in str(task)


def person_is_slow(shop: AgentShop, model: ScriptedModel, intent: str, append: Json) -> None:
    """The agent goes on with its own session after a late verdict, and its act happens once.

    Args:
        append: the call of the agent's own tool that appends ``hello world`` to hello.txt.
    """
    ids = shop.begin(intent, f"{order(append['name'], **append['arguments'])}[[then]]{DONE}")

    def given_up() -> Json | None:
        task = shop.when(ids, "waiting_approval", "failed", seconds=120)
        return task if [one["status"] for one in task["attempts"]] == ["cancelled"] else None

    task = wait_until(given_up, "the attempt ended without an answer", 60)
    assert shop.processes() == []
    model.reply(marker="decided meanwhile", calls=[append])
    model.reply(marker="decided meanwhile", text="I have created hello.txt.")
    shop.decide(task, "approve")
    task = asked(shop, ids, "session_complete")
    first, second = task["attempts"]
    assert [(one["status"], one["spends"]) for one in (first, second)] == [("cancelled", False), ("passed", True)]
    assert (first["session"]["loaded"], second["session"]["loaded"]) == (False, True), second["session"]
    assert first["session"]["id"] == second["session"]["id"]
    answers = [[each["answer"] for each in one["permissions"]] for one in (first, second)]
    assert answers == [["cancel"], ["allow"]]
    assert second["prompt"].startswith("You were stopped while you waited for a permission.")
    shop.decide(task, "approve")
    assert shop.when(ids, "succeeded", "failed")["status"] == "succeeded"
    shop.clean()
    assert shop.read() == "hello world\n"


def agent_is_killed(shop: AgentShop, model: ScriptedModel, intent: str) -> None:
    """A killed agent has failed, and its half-done work with it; the next attempt does the rest."""
    ids = begun_and_held(shop, model, intent)
    shop.agent().send_signal(signal.SIGKILL)
    task = shop.when(ids, "waiting_approval", "failed")
    killed, after = task["attempts"]
    assert (killed["status"], killed["failure_class"], killed["spends"]) == ("failed", "wrong_output", True)
    assert killed["exit_code"] == -signal.SIGKILL
    assert after["status"] == "passed"
    shop.decide(task, "approve")
    assert shop.when(ids, "succeeded", "failed")["status"] == "succeeded"
    shop.clean()


def server_is_killed(
    shop: AgentShop, model: ScriptedModel, intent: str, program: Path = GOOSE, half: Json = HALF, hello: str = HELLO
) -> None:
    """The attempt counts as interrupted, its processes are gone, and the next one does the work.

    Args:
        half: the call of the agent's own tool that leaves something half done.
        hello: the order that makes it write the file.
    """
    ids = begun_and_held(shop, model, intent, half, hello)
    orphan = shop.agent(program)
    shop.server.kill()
    model.reset()
    shop.server.start()
    task = shop.when(ids, "waiting_approval", "failed")
    assert not orphan.is_running() or orphan.status() == "zombie"
    assert [one["status"] for one in task["attempts"]] == ["interrupted", "passed"]
    shop.decide(task, "approve")
    assert shop.when(ids, "succeeded", "failed")["status"] == "succeeded"
    shop.clean()
    assert (shop.read(), shop.read("half.txt")) == ("hello world\n", None)


def begun_and_held(shop: AgentShop, model: ScriptedModel, intent: str, half: Json = HALF, hello: str = HELLO) -> Json:
    """A task whose agent waits for the answer to its second request."""
    model.reply(marker="hello.txt", calls=[half])
    model.reply(marker="hello.txt", hold="in-the-middle")
    ids = shop.begin(intent, f"{hello}[[then]]{DONE}")

    def held() -> Any:
        return len(model.requests("hello.txt")) == 2

    wait_until(held, "the second request came")
    return ids
