"""Words of the tests: messages that order tool calls from the scripted model, and what came of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from tests.support.client import Client, Json
from tests.support.script import text_of
from tests.support.scripted_model import ScriptedModel

A = TypeVar("A")
B = TypeVar("B")


def fresh(word: str = "line") -> str:
    """A text no other test has."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


def call(tool: str, text: str | None = None, **args: Any) -> str:
    """The order for one tool call."""
    if text is not None:
        args["text"] = text
    return f"[[call {tool} {json.dumps(args)}]]"


def park(client: Client, *texts: str, tool: str = "append_line", thread_id: str | None = None) -> Json:
    """A turn that parks with one call per text; gives its Outcome, approvals in the order of the texts."""
    outcome = client.chat(" ".join(call(tool, text) for text in texts), thread_id)
    assert outcome["status"] == "parked", outcome
    outcome["approvals"].sort(key=lambda approval: texts.index(approval["args"]["text"]))
    assert [approval["args"]["text"] for approval in outcome["approvals"]] == list(texts)
    return outcome


def approve(approval: Json, **more: Any) -> Json:
    """The decision that approves it."""
    return {"action_id": approval["action_id"], "decision": "approve", **more}


def reject(approval: Json, **more: Any) -> Json:
    """The decision that rejects it."""
    return {"action_id": approval["action_id"], "decision": "reject", **more}


def results(model: ScriptedModel, marker: str) -> list[str]:
    """The tool results at the end of the newest request of that turn, in order."""
    found: list[str] = []
    for message in reversed(model.requests(marker)[-1]["body"]["messages"]):
        if message["role"] != "tool":
            break
        found.append(text_of(message["content"]))
    return found[::-1]


def together(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Do the work on all items at the same moment, one thread each; gives the answers in order."""
    todo = list(items)
    barrier = Barrier(len(todo))

    def one(item: A) -> B:
        barrier.wait(60)
        return work(item)

    with ThreadPoolExecutor(len(todo)) as pool:
        return list(pool.map(one, todo))
