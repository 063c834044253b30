"""`langgraph dev` through the official client: what Studio and chat clients do, and what they may not (E1, B1)."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from typing import Any

import httpx
from langgraph_sdk.client import SyncLangGraphClient

from tests.studio.conftest import Lab
from tests.support.polling import wait_until
from tests.support.server import OWNER_TOKEN, ROOT
from tests.support.studio import LANGGRAPH, answer, say

GRAPH = "butler"
Json = dict[str, Any]


def events(client: SyncLangGraphClient, thread_id: str, **run: Any) -> list[tuple[str, Any]]:
    """One run to its end."""
    run.setdefault("stream_mode", ["values"])
    return [(part.event, part.data) for part in client.runs.stream(thread_id, GRAPH, **run)]


def fault(parts: list[tuple[str, Any]]) -> str:
    """The error that ended a run."""
    assert parts[-1][0] == "error", parts
    return str(parts[-1][1]["message"])


def parked(client: SyncLangGraphClient, message: str) -> tuple[str, Any]:
    """A new thread that waits, and what it asks."""
    thread_id = client.threads.create()["thread_id"]
    events(client, thread_id, input=say(message))
    [interrupt] = client.threads.get_state(thread_id)["interrupts"]
    return thread_id, interrupt


def values(client: SyncLangGraphClient, thread_id: str) -> Json:
    found: Any = client.threads.get_state(thread_id)["values"]
    return dict(found)


def said(client: SyncLangGraphClient, thread_id: str) -> list[Json]:
    return list(values(client, thread_id)["messages"])


def test_a_call_parks_and_of_two_approvals_one_counts(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id, interrupt = parked(client, "/append_line text=once")
    value = interrupt["value"]
    assert value["action_requests"] == [
        {"name": "append_line", "args": {"text": "once"}, "description": "append_line(text=once)"}
    ]
    [config] = value["review_configs"]
    assert config == {"action_name": "append_line", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
    assert {"type", "action_id", "tool_call_id", "reason", "rule", "risk", "fingerprint", "expires_at"} <= value.keys()
    assert client.threads.get(thread_id)["status"] == "interrupted"
    assert fault(events(client, thread_id, command={"resume": True})).startswith("invalid_request:")
    assert client.threads.get_state(thread_id)["interrupts"] == [interrupt]
    assert lab.butler.workshop.effects("once") == []
    first = client.runs.create(thread_id, GRAPH, command=answer("approve"))
    second = client.runs.create(thread_id, GRAPH, command=answer("approve"))
    client.runs.join(thread_id, second["run_id"])
    assert client.runs.get(thread_id, first["run_id"])["status"] == "success"
    assert client.runs.get(thread_id, second["run_id"])["status"] == "error"
    assert len(lab.butler.workshop.effects("once")) == 1
    assert said(client, thread_id)[-1]["content"] == "wrote once\n"
    assert len(client.threads.get_history(thread_id)) > 3


def test_threads_of_the_server_are_listed_and_shown(client: SyncLangGraphClient, lab: Lab) -> None:
    def listed() -> bool:
        return {lab.talk, lab.parked} <= {thread["thread_id"] for thread in client.threads.search(limit=200)}

    wait_until(listed, "the server's threads are in the list")
    state = values(client, lab.talk)
    assert [message["type"] for message in state["messages"]] == ["human", "ai"]
    assert state["messages"][0]["content"] == "good morning"
    assert client.threads.get_history(lab.talk)
    [interrupt] = client.threads.get_state(lab.parked)["interrupts"]
    assert interrupt["value"]["action_requests"][0]["args"] == {"text": "from-the-server"}
    assert client.threads.create(thread_id=lab.parked, if_exists="do_nothing")["thread_id"] == lab.parked
    events(client, lab.parked, command=answer("approve"))
    assert len(lab.butler.workshop.effects("from-the-server")) == 1


def test_the_drawing_has_every_node_and_the_steps_of_a_maid(client: SyncLangGraphClient) -> None:
    nodes = {node["id"] for node in client.assistants.get_graph(GRAPH, xray=True)["nodes"]}
    assert {"intake", "think", "classify", "act", "compact"} <= nodes
    steps = ("claim", "route", "prepare", "permission", "attempt", "verify", "review", "apply", "report")
    assert {f"delegate:{step}" for step in steps} <= nodes


def test_studios_form_asks_for_messages(client: SyncLangGraphClient) -> None:
    [assistant] = client.assistants.search()
    schemas = client.assistants.get_schemas(assistant["assistant_id"])
    assert list((schemas["input_schema"] or {})["properties"]) == ["messages"]


def test_a_chat_client_talks_as_agent_chat_ui_does(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id = client.threads.create()["thread_id"]
    human = {"id": str(uuid.uuid4()), "type": "human", "content": [{"type": "text", "text": "tell me something"}]}
    parts = events(
        client, thread_id, input={"messages": [human]}, stream_mode=["values", "messages-tuple"],
        stream_subgraphs=True, stream_resumable=True, on_disconnect="continue",
    )  # fmt: skip
    chunks = [data[0]["content"] for event, data in parts if event == "messages"]
    last = [data for event, data in parts if event == "values"][-1]["messages"][-1]
    assert last["type"] == "ai"
    assert "".join(chunks) == last["content"]
    assert len(chunks) > 5
    assert said(client, thread_id)[0]["content"] == "tell me something"
    history = said(client, thread_id)
    events(client, thread_id, input={"messages": [*history, {"type": "human", "content": "/append_line text=ui"}]})
    checkpoint = client.threads.get_state(thread_id)["checkpoint"]
    seen = {"checkpoint_id": checkpoint["checkpoint_id"], "checkpoint_ns": ""}
    events(client, thread_id, command=answer("approve"), checkpoint=seen)
    assert len(lab.butler.workshop.effects("ui")) == 1


def test_a_delegated_task_runs_with_its_steps(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id = client.threads.create()["thread_id"]
    call = f'/delegate intent=format instruction="good work" project_root={lab.shop.project}'
    parts = events(client, thread_id, input=say(call), stream_mode=["updates"], stream_subgraphs=True)
    steps = [step for event, data in parts if event.startswith("updates|delegate") for step in data]
    assert [step for step in steps if step != "__interrupt__"] == ["claim", "route", "prepare", "attempt", "verify"]
    [interrupt] = client.threads.get_state(thread_id)["interrupts"]
    assert interrupt["value"]["action_requests"][0]["name"] == "session_complete"
    assert "+formatted" in interrupt["value"]["action_requests"][0]["args"]["diff"]
    events(client, thread_id, command=answer("approve"))
    assert lab.shop.out() == "formatted\n"
    assert not lab.shop.folders and not lab.shop.worktrees


def test_without_the_token_of_an_admin_nobody_comes_in(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id = lab.waiting
    [interrupt] = client.threads.get_state(thread_id)["interrupts"]
    runs = f"{lab.dev.url}/threads/{thread_id}/runs/wait"
    body = {"assistant_id": GRAPH, "command": answer("approve")}
    tries = [
        ({}, 401), ({"authorization": "Bearer wrong"}, 401), ({"x-api-key": "wrong"}, 401),
        ({"x-api-key": lab.member}, 403),
        ({"x-auth-scheme": "langsmith"}, 401), ({"x-auth-scheme": "langsmith", "x-api-key": "lsv2_x"}, 401),
        ({"host": "evil.example", "origin": "https://evil.example"}, 401),
    ]  # fmt: skip
    for headers, status in tries:
        assert httpx.post(runs, json=body, headers=headers).status_code == status, headers
        assert httpx.get(f"{lab.dev.url}/threads/{thread_id}/state", headers=headers).status_code == status
    assert client.threads.get_state(thread_id)["interrupts"] == [interrupt]
    assert lab.butler.workshop.effects("never-decided") == []


def test_a_foreign_page_is_told_nothing_by_the_browser(lab: Lab) -> None:
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    for origin, allowed in (
        ("https://evil.example", None),
        ("https://smith.langchain.com", "https://smith.langchain.com"),
    ):
        response = httpx.options(f"{lab.dev.url}/threads", headers={"origin": origin, **ask})
        assert response.headers.get("access-control-allow-origin") == allowed


def test_state_threads_and_schedules_are_not_changed_from_here(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id = lab.waiting
    [interrupt] = client.threads.get_state(thread_id)["interrupts"]
    headers = {"x-api-key": OWNER_TOKEN}
    state = httpx.post(f"{lab.dev.url}/threads/{thread_id}/state", headers=headers, json={"values": {"calls": []}})
    assert state.status_code >= 400
    assert httpx.delete(f"{lab.dev.url}/threads/{thread_id}", headers=headers).status_code == 403
    cron = {"assistant_id": GRAPH, "schedule": "* * * * *"}
    assert httpx.post(f"{lab.dev.url}/runs/crons", headers=headers, json=cron).status_code == 403
    assert client.threads.get_state(thread_id)["interrupts"] == [interrupt]


def test_a_thread_is_not_copied_and_a_run_sends_nothing_to_others(client: SyncLangGraphClient, lab: Lab) -> None:
    headers = {"x-api-key": OWNER_TOKEN}
    assert httpx.post(f"{lab.dev.url}/threads/{lab.waiting}/copy", headers=headers).status_code == 403
    runs = f"{lab.dev.url}/threads/{client.threads.create()['thread_id']}/runs/wait"
    for unwanted in (
        {"webhook": "https://1.1.1.1/hook"}, {"feedback_keys": ["good"]},
        {"langsmith_tracer": {"project_name": "theirs"}}, {"multitask_strategy": "rollback"},
    ):  # fmt: skip
        body = {"assistant_id": GRAPH, "input": say("/note_line text=never"), **unwanted}
        refused = httpx.post(runs, headers=headers, json=body)
        assert refused.status_code == 403 and f"Not possible with Butler: {next(iter(unwanted))}" in refused.text
    assert lab.butler.workshop.effects("never") == []


def test_the_dev_servers_own_files_are_for_the_owner_alone(lab: Lab) -> None:
    assert (lab.butler.home / ".langgraph_api").stat().st_mode & 0o777 == 0o700


def test_the_newer_protocol_asks_for_a_token_and_decides_as_the_older_one(
    client: SyncLangGraphClient, lab: Lab
) -> None:
    thread_id, interrupt = parked(client, "/append_line text=newer")
    commands = f"{lab.dev.url}/threads/{thread_id}/commands"

    def respond(response: Any, headers: dict[str, str]) -> httpx.Response:
        named = {"interrupt_id": interrupt["id"], "namespace": [], "response": response}
        return httpx.post(commands, headers=headers, json={"id": 1, "method": "input.respond", "params": named})

    approval = {"decisions": [{"type": "approve"}]}
    assert respond(approval, {}).status_code == 401
    assert respond(True, {"x-api-key": OWNER_TOKEN}).json()["type"] == "success"  # Taken for a run, which fails.
    wait_until(lambda: client.threads.get(thread_id)["status"] != "busy", "the run has failed")
    assert client.threads.get_state(thread_id)["interrupts"] == [interrupt]
    assert lab.butler.workshop.effects("newer") == []
    assert respond(approval, {"x-api-key": OWNER_TOKEN}).json()["type"] == "success"
    wait_until(lambda: len(lab.butler.workshop.effects("newer")) == 1, "the approved call has run")


def test_a_cancelled_run_ends_its_turn(client: SyncLangGraphClient, lab: Lab) -> None:
    thread_id = client.threads.create()["thread_id"]
    run = client.runs.create(thread_id, GRAPH, input=say("/slow_note text=cancelled"))
    wait_until(lambda: lab.butler.workshop.begun("cancelled"), "the tool runs")
    client.runs.cancel(thread_id, run["run_id"], wait=True)
    assert lab.butler.workshop.effects("cancelled") == []
    assert said(client, thread_id)[-1]["content"].endswith("(The turn was cancelled by a person.)")


def test_the_documented_example_works(client: SyncLangGraphClient, lab: Lab) -> None:
    [example] = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "studio.md").read_text(), re.MULTILINE | re.DOTALL
    )
    script = example.replace("http://127.0.0.1:2024", lab.dev.url).replace('"TOKEN"', f'"{OWNER_TOKEN}"')
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "delegate:attempt" in done.stdout and "tool_approval" in done.stdout
    assert len(lab.butler.workshop.effects("hello")) == 1


def test_the_configuration_is_valid_for_its_own_program() -> None:
    told = subprocess.run([LANGGRAPH, "validate"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert "is valid. (1 graph found)" in told.stdout


def test_nothing_blocked_and_no_secret_was_told(lab: Lab) -> None:
    assert "BlockingError" not in lab.dev.told
    assert OWNER_TOKEN not in lab.dev.told
