"""Butler's MCP tools over `/mcp`: what they do, for whom, and with which errors (http-api, *MCP*)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from service.mcp.offer import OFFERS
from tests.support.client import Client, Json, refused
from tests.support.maids import MaidShop, when_task
from tests.support.mcp_calls import called, refusal, rpc, tool
from tests.support.orders import call, fresh, together
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

NAMES = [offer.name for offer in OFFERS]
BOTH = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("mcp"), shared_model.url)
    made = MaidShop(server)
    draft = {"tool": "delete_*", "args": {"target": "brief-*"}, "verdict": "approve", "expires_in": 0.05}
    server.workshop.write_policy({"name": "brief", "reason": "Quick", **draft})
    server.start()
    yield made
    server.close()


@pytest.fixture(scope="module")
def owner(shop: MaidShop) -> Client:
    return shop.server.client()


@pytest.fixture(scope="module")
def mia(shop: MaidShop) -> Client:
    return shop.server.user_add("mia", "member")


def parked(client: Client, text: str, thread_id: str | None = None) -> Json:
    more = {"thread_id": thread_id} if thread_id else {}
    return tool(client, "chat", message=call("append_line", text), **more)


def via(owner: Client, action_id: str, event: str) -> list[str]:
    rows = [row for row in owner.get("/audit", limit=200)["items"] if row["action_id"] == action_id]
    return [row["via"] for row in rows if row["event"] == event]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_finds_six_tools_and_talks(shop: MaidShop, owner: Client, mode: Any) -> None:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {owner.token}"})
    place = streamable_http_client(f"{shop.server.url}/mcp", http_client=http)
    async with http, McpClient(place, mode=mode) as client:
        assert [one.name for one in (await client.list_tools()).tools] == NAMES
        assert client.instructions is not None and "waits for a person" in client.instructions
        done = await client.call_tool("chat", {"message": "good morning"})
        assert not done.is_error and done.structured_content["status"] == "done"
        assert done.structured_content["reply"] in str(done.content[1])
        unknown = await client.call_tool("maid_run_status", {"maid_run_id": "nobody"})
        assert unknown.is_error and unknown.structured_content["code"] == "not_found"
        read = await client.read_resource(f"butler://runs/{done.structured_content['run_id']}")
        assert json.loads(str(read.contents[0].model_dump()["text"])) == done.structured_content


def test_a_parked_turn_is_shown_whole_decided_and_done_once(shop: MaidShop, owner: Client) -> None:
    text = fresh()
    result = called(owner, "chat", {"message": call("append_line", text)})
    outcome, (as_json, readable) = result["structuredContent"], [part["text"] for part in result["content"]]
    assert json.loads(as_json) == outcome and outcome["status"] == "parked"
    [asked] = outcome["approvals"]
    assert f'"text": "{text}"' in readable and f"/approve {asked['code']}" in readable
    assert "approvals_decide" in readable
    listed = tool(owner, "approvals_list", thread_id=outcome["thread_id"])
    assert listed == {"items": [asked], "more": False}
    again = tool(owner, "chat", message="still there?", thread_id=outcome["thread_id"])
    assert (again["status"], again["approvals"]) == ("queued", [asked])
    decided = tool(
        owner, "approvals_decide", action_id=asked["action_id"], decision="approve", fingerprint=asked["fingerprint"]
    )
    assert decided["approval"]["decision"]["via"] == "mcp" and decided["run_id"] == outcome["run_id"]
    assert owner.when_run(outcome["run_id"], "done")["status"] == "done"
    assert owner.when_run(again["run_id"], "done")["reply"]
    assert len(shop.server.workshop.effects(text)) == 1
    assert via(owner, asked["action_id"], "shown") == ["mcp"]
    assert tool(owner, "approvals_list", thread_id=outcome["thread_id"])["items"] == []


def test_edit_reject_and_respond_mean_what_they_mean_elsewhere(shop: MaidShop, owner: Client) -> None:
    texts = [fresh() for _ in range(3)]
    message = " ".join(call("append_line", text) for text in texts)
    outcome = tool(owner, "chat", message=message)
    ids = {one["args"]["text"]: one["action_id"] for one in outcome["approvals"]}
    edited, reason = fresh("edited"), "Not today"
    answers: list[Json] = [
        {"decision": "edit", "args": {"text": edited}},
        {"decision": "reject", "reason": reason},
        {"decision": "respond", "reason": "Done by hand"},
    ]
    given = [
        tool(owner, "approvals_decide", action_id=ids[text], **answer)["approval"]["decision"]
        for text, answer in zip(texts, answers, strict=True)
    ]
    assert [one["decision"] for one in given] == ["edit", "reject", "respond"] and given[1]["reason"] == reason
    owner.when_run(outcome["run_id"], "done")
    assert [len(shop.server.workshop.effects(text)) for text in (*texts, edited)] == [0, 0, 0, 1]


def test_a_command_is_read_by_code(owner: Client) -> None:
    assert "/approve CODE" in tool(owner, "chat", message="/help")["reply"]
    failed = tool(owner, "chat", message="/approve XXXX")
    assert failed["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("chat", {"message": "x", "thread_id": "nobody"}, "not_found"),
        ("chat", {"message": " \n"}, "invalid_request"),
        ("chat", {"message": "x" * 200_001}, "invalid_request"),
        ("chat", {"message": "x", "if_parked": "queue"}, "invalid_request"),
        ("chat", {"message": ["x"]}, "invalid_request"),
        ("chat", {}, "invalid_request"),
        ("delegate", {"intent": "format", "instruction": "x", "maid_id": "scripted"}, "invalid_request"),
        ("delegate", {"intent": "format", "instruction": "x", "project_root": "/etc"}, "forbidden"),
        ("delegate", {"intent": "format", "instruction": "x", "expect": {"test_command": []}}, "invalid_request"),
        ("delegate", {"intent": "for mat", "instruction": "x"}, "invalid_request"),
        ("maid_run_status", {"maid_run_id": "nobody"}, "not_found"),
        ("approvals_list", {"thread_id": 5}, "invalid_request"),
        ("approvals_decide", {"action_id": "nobody", "decision": "approve"}, "not_found"),
        ("approvals_decide", {"action_id": "nobody", "decision": "yes"}, "invalid_request"),
        ("approvals_decide", {"action_id": "nobody", "decision": "edit"}, "invalid_request"),
        ("approvals_decide", {"action_id": "nobody", "decision": "respond"}, "invalid_request"),
        ("session_complete", {"maid_run_id": "nobody", "decision": "approve"}, "not_found"),
        ("session_complete", {"maid_run_id": "nobody", "decision": "edit"}, "invalid_request"),
    ],
)  # fmt: skip
def test_a_refusal_has_its_code(owner: Client, name: str, arguments: Json, code: str) -> None:
    result = called(owner, name, arguments)
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["structuredContent"]["code"] == code, result
    assert result["structuredContent"]["detail"]


def test_a_decision_comes_once_and_on_what_was_shown(owner: Client) -> None:
    outcome = parked(owner, fresh())
    action_id = outcome["approvals"][0]["action_id"]
    stale = refusal(owner, "approvals_decide", action_id=action_id, decision="approve", fingerprint="0" * 64)
    assert stale["code"] == "stale_decision"
    tool(owner, "approvals_decide", action_id=action_id, decision="reject", reason="no")
    late = refusal(owner, "approvals_decide", action_id=action_id, decision="approve")
    assert late["code"] == "already_decided"
    assert (late["decision"]["decision"], late["decision"]["via"], late["decision"]["by"]) == ("reject", "mcp", "owner")


def test_what_has_expired_is_told_as_that(owner: Client) -> None:
    outcome = tool(owner, "chat", message=call("delete_thing", target="brief-note"))
    owner.when_run(outcome["run_id"], "done")
    action_id = outcome["approvals"][0]["action_id"]
    assert refusal(owner, "approvals_decide", action_id=action_id, decision="approve")["code"] == "expired"


def test_a_member_delegates_and_talks_and_approves_nothing(shop: MaidShop, owner: Client, mia: Client) -> None:
    outcome = parked(mia, fresh())
    action_id = outcome["approvals"][0]["action_id"]
    assert (
        "This waits for"
        in called(mia, "chat", {"message": "well?", "thread_id": outcome["thread_id"]})["content"][1]["text"]
    )
    for decision in ("approve", "reject"):
        told = refusal(mia, "approvals_decide", action_id=action_id, decision=decision)
        assert told["code"] == "not_an_approver"
    assert via(owner, action_id, "attempt_refused") == ["mcp", "mcp"]
    begun = tool(mia, "delegate", intent="format", instruction="good work")
    when_task(mia, begun["maid_run_id"], "waiting_approval")
    task = tool(mia, "maid_run_status", maid_run_id=begun["maid_run_id"])
    assert (task["status"], task["approvals"][0]["tool"]) == ("waiting_approval", "session_complete")
    for decision in ("approve", "reject"):
        told = refusal(mia, "session_complete", maid_run_id=begun["maid_run_id"], decision=decision)
        assert told["code"] == "not_an_approver"
    assert shop.out() is None
    tool(owner, "session_complete", maid_run_id=begun["maid_run_id"], decision="reject")


def test_what_is_someone_elses_is_not_there(owner: Client, mia: Client) -> None:
    outcome = parked(owner, fresh())
    action_id = outcome["approvals"][0]["action_id"]
    ids = tool(owner, "delegate", intent="format", instruction="nothing at all")
    asked: list[tuple[str, Json]] = [
        ("chat", {"message": "x", "thread_id": outcome["thread_id"]}),
        ("maid_run_status", {"maid_run_id": ids["maid_run_id"]}),
        ("approvals_decide", {"action_id": action_id, "decision": "reject"}),
        ("session_complete", {"maid_run_id": ids["maid_run_id"], "decision": "approve"}),
    ]
    for name, arguments in asked:
        assert refusal(mia, name, **arguments)["code"] == "not_found"
    assert tool(mia, "approvals_list", thread_id=outcome["thread_id"]) == {"items": [], "more": False}
    read = rpc(mia, "resources/read", {"uri": f"butler://runs/{outcome['run_id']}"}).json()
    assert read["error"]["data"]["code"] == "not_found"
    assert owner.approval(action_id)["status"] == "pending"
    tool(owner, "approvals_decide", action_id=action_id, decision="reject")


def test_who_is_not_let_in_hears_it_from_the_door(shop: MaidShop, owner: Client) -> None:
    agent = shop.server.user_add("robo", "agent")
    refused(rpc(shop.server.client(None), "tools/list"), 401, "unauthorized")
    refused(rpc(shop.server.client("wrong"), "tools/list"), 401, "unauthorized")
    refused(rpc(agent, "tools/list"), 403, "forbidden")
    for origin in ("http://evil.example", "null"):
        refused(rpc(owner, "tools/list", Origin=origin), 403, "forbidden")
    assert rpc(owner, "tools/list", Origin=shop.server.url).status_code == 200
    refused(rpc(owner, "tools/call", {"name": "chat", "arguments": {"message": "x" * 5_000_000}}), 413, "too_large")
    for method in ("GET", "DELETE", "PUT"):
        response = owner.request(method, "/mcp", headers=BOTH)
        refused(response, 405, "invalid_request")
        assert response.headers["allow"] == "POST"


def test_a_session_of_others_opens_nothing(owner: Client, mia: Client) -> None:
    made = rpc(
        owner,
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    )
    assert made.status_code == 200 and "mcp-session-id" not in made.headers
    outcome = parked(owner, fresh())
    headers = {"Mcp-Session-Id": "owners-session", **BOTH}
    body = {"name": "approvals_list", "arguments": {"thread_id": outcome["thread_id"]}}
    assert rpc(mia, "tools/call", body, **headers).json()["result"]["structuredContent"]["items"] == []
    assert len(rpc(owner, "tools/call", body, **headers).json()["result"]["structuredContent"]["items"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        "[]", '[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', "{", "", '"x"', "null", '{"id": 1, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": NaN}',
        '{"jsonrpc": "2.0", "id": {}, "method": "ping"}', '{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": 1, "method": 5}', "\ud800".encode("utf-8", "surrogatepass"), "[" * 100_000,
        '{"jsonrpc": "1.0", "id": 1, "method": "ping"}', '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}',
    ],
    ids=range(15),
)  # fmt: skip
def test_what_is_no_message_is_refused(owner: Client, body: Any) -> None:
    response = owner.request("POST", "/mcp", content=body, headers={"Content-Type": "application/json", **BOTH})
    assert response.status_code == 400, response.text
    error = response.json()
    assert error["jsonrpc"] == "2.0" and error["error"]["code"] in (-32700, -32600, -32602)
    assert "Traceback" not in response.text


def test_other_media_unknown_methods_and_unknown_tools_are_told(owner: Client) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert owner.request("POST", "/mcp", content=message, headers={"Content-Type": "text/plain"}).status_code == 400
    assert rpc(owner, "ping").json()["result"] == {}
    assert rpc(owner, "ping", Accept="application/json").status_code == 200
    assert rpc(owner, "no/such").json()["error"]["code"] == -32601
    unknown = rpc(owner, "tools/call", {"name": "rm", "arguments": {}}).json()
    assert unknown["error"]["code"] == -32602 and "approvals_list" in unknown["error"]["message"]
    assert unknown["error"]["data"]["code"] == "not_found"
    for wrong in ({"name": "chat", "arguments": "x"}, {"name": "chat", "arguments": []}, {"name": 5}, {}):
        refused = rpc(owner, "tools/call", wrong)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["data"]["code"]) == (200, -32602, "invalid_request")
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert owner.request("POST", "/mcp", json=note).status_code == 202


def test_progress_comes_in_a_stream_for_who_asks(owner: Client) -> None:
    params = {"name": "chat", "arguments": {"message": "/help"}, "_meta": {"progressToken": "p"}}
    streamed = rpc(owner, "tools/call", params, **BOTH)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    [data] = [line for line in streamed.text.splitlines() if line.startswith("data:")]
    assert json.loads(data.removeprefix("data:"))["result"]["isError"] is False
    assert rpc(owner, "tools/call", params).headers["content-type"] == "application/json"


def test_a_client_that_goes_away_cancels_nothing(owner: Client, model: ScriptedModel) -> None:
    text = fresh("gone")
    model.reply(marker=text, hold="while-gone", text="answered all the same")
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "chat", "arguments": {"message": text}},
    }
    with httpx.Client(trust_env=False) as http, pytest.raises(httpx.ReadTimeout):
        headers = {"Authorization": f"Bearer {owner.token}"}
        http.post(f"{owner.address()}/mcp", json=body, headers=headers, timeout=0.3)
    model.release("while-gone")
    [thread] = [one for one in owner.get("/threads", limit=200)["items"] if text in one["title"]]
    owner.when_status(thread["thread_id"], "idle")
    assert owner.transcript(thread["thread_id"])[-1] == ("assistant", "answered all the same")


def test_many_calls_together_are_all_answered(owner: Client) -> None:
    texts = [fresh() for _ in range(12)]
    outcomes = together(lambda text: tool(owner, "chat", message=f"hello {text}"), texts)
    assert len({outcome["thread_id"] for outcome in outcomes}) == 12
    assert {outcome["status"] for outcome in outcomes} == {"done"}


def test_of_two_decisions_on_two_faces_one_wins(shop: MaidShop, owner: Client) -> None:
    for _ in range(5):
        text = fresh()
        action_id = parked(owner, text)["approvals"][0]["action_id"]

        def decide(face: str, action_id: str = action_id) -> str:
            if face == "mcp":
                result = called(owner, "approvals_decide", {"action_id": action_id, "decision": "approve"})
                return str(result["structuredContent"].get("code", "won"))
            response = owner.post(f"/approvals/{action_id}", {"decision": "reject"})
            return str(response.json().get("code", "won"))

        told = together(decide, ["mcp", "http"])
        assert sorted(told) == ["already_decided", "won"]
        approval = owner.approval(action_id)
        assert approval["decision"]["via"] == ("mcp" if told[0] == "won" else "http")
        owner.when_run(approval["run_id"], "done")
        assert len(shop.server.workshop.effects(text)) == (1 if told[0] == "won" else 0)


def test_a_task_outlives_the_server_and_is_accepted_once(shop: MaidShop, owner: Client) -> None:
    begun = tool(owner, "delegate", intent="format", instruction="good work", project_root=str(shop.project))
    maid_run_id = begun["maid_run_id"]
    shop.server.restart()
    when_task(owner, maid_run_id, "waiting_approval")
    task = tool(owner, "maid_run_status", maid_run_id=maid_run_id)
    assert "+formatted" in task["diff"] and task["attempts"][-1]["status"] == "passed"
    assert shop.out() is None
    shop.server.restart()
    decided = tool(owner, "session_complete", maid_run_id=maid_run_id, decision="approve")
    assert decided["approval"]["tool"] == "session_complete" and decided["approval"]["decision"]["via"] == "mcp"
    when_task(owner, maid_run_id, "succeeded")
    assert shop.out() == "formatted\n"
    late = refusal(owner, "session_complete", maid_run_id=maid_run_id, decision="reject")
    assert (late["code"], late["decision"]["decision"]) == ("already_decided", "approve")
    (shop.project / "out.txt").unlink()


def test_a_reject_with_a_reason_gives_the_maid_one_more_try(shop: MaidShop, owner: Client) -> None:
    begun = tool(owner, "delegate", intent="format", instruction="feedback is welcome")
    first = when_task(owner, begun["maid_run_id"], "waiting_approval")
    asked = first["approvals"][0]["action_id"]
    tool(owner, "session_complete", maid_run_id=begun["maid_run_id"], decision="reject", reason="please add more")

    def again() -> Json:
        task = when_task(owner, begun["maid_run_id"], "waiting_approval", "failed")
        return task if task["approvals"][0]["action_id"] != asked else again()

    assert "+with feedback" in again()["diff"]
    tool(owner, "session_complete", maid_run_id=begun["maid_run_id"], decision="approve")
    assert when_task(owner, begun["maid_run_id"], "succeeded", "failed")["status"] == "succeeded"
    (shop.project / "out.txt").unlink()


def test_what_has_no_finished_work_has_nothing_to_accept(owner: Client) -> None:
    begun = tool(owner, "delegate", intent="format", instruction="nothing at all")
    when_task(owner, begun["maid_run_id"], "failed")
    told = refusal(owner, "session_complete", maid_run_id=begun["maid_run_id"], decision="approve")
    assert told["code"] == "not_parked"
