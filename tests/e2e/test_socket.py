"""The socket at a running server, with a real client, frame by frame (http-api, *Agents and the socket*)."""

from __future__ import annotations

import json
import socket as sockets
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.client import Client
from tests.support.downstream import agent_online, answer
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.sockets import Socket, open_socket, text_of


def ask(socket: Socket, text: str | None = None) -> str:
    """A message that leads to an approval request; gives the id of the action."""
    text = text or fresh()
    socket.send(type="CHAT", payload=call("append_line", text))
    action_id = asked(socket, text)
    socket.until("CHAT_STREAM_END")
    return action_id


def asked(socket: Socket, text: str) -> str:
    """The id in the request about a line with that text; others may be open too."""
    request = socket.until(lambda one: one["type"] == "AUTH_REQUEST" and one["payload"]["args"].get("text") == text)
    return str(request["action_id"])


def test_the_dialogue_of_the_seed(butler: ButlerServer, owner: Client) -> None:
    agent = butler.user_add("7", "agent")
    with agent_online(owner, agent, "7") as seven, open_socket(owner) as admin:
        admin.send(
            type="CHAT", sender_id=1, sender_name="Admin", sender_role="ADMIN", target_id=2,
            payload="[[say I'll check the status of agent 7. Let me send an authorization request.]]"
            '[[call command_agent {"target_agent_id": "7", "command": "get_status 7", '
            '"reasoning": "User requested to check agent status"}]][[then]][[say Checking status... Agent 7: Online]]',
            timestamp="2024-01-01T00:00:00Z",
        )  # fmt: skip
        first = admin.turn()
        said, request = [one for one in first if one["type"] in ("CHAT", "AUTH_REQUEST")]
        assert [one["type"] for one in first[-3:]] == ["CHAT", "AUTH_REQUEST", "CHAT_STREAM_END"]
        assert text_of(first) == said["payload"]
        assert said["payload"] == "I'll check the status of agent 7. Let me send an authorization request."
        assert {(one["sender_name"], one["sender_role"]) for one in first} == {("Butler", "BUTLER")}
        assert request["command"] == "get_status 7"
        assert request["reasoning"] == "User requested to check agent status"
        assert request["payload"]["tool"] == "command_agent"
        admin.send(
            type="AUTH_RESPONSE", action_id=request["action_id"], approved=True, sender_id=1, sender_name="Admin",
            sender_role="ADMIN", target_id=2, timestamp="2024-01-01T00:00:03Z",
        )  # fmt: skip
        directive = seven.next()
        assert directive["payload"] == directive["command"] == "get_status 7"
        assert directive["action_id"] == request["action_id"] and directive["correlation_id"]
        answer(seven, directive, "all is well")
        second = admin.turn()
        assert second[0]["type"] == "AUTH_STATUS_UPDATE" and second[0]["approved"] is True
        assert second[0]["payload"]["decision"]["via"] == "socket"
        assert {one["stream_id"] for one in second[1:]} == {request["action_id"]}
        assert text_of(second) == "Checking status... Agent 7: Online"
        assert [one["type"] for one in second[-2:]] == ["CHAT", "CHAT_STREAM_END"]
        assert [one["seq"] for one in admin.received] == list(range(1, len(admin.received) + 1))


def test_the_first_frame_can_carry_the_token_and_the_talk_stays_in_one_thread(owner: Client) -> None:
    with open_socket(owner, by_header=False) as admin:
        threads = []
        for _ in range(2):
            admin.send(type="CHAT", payload="[[say hello]]", correlation_id="mine")
            frames = admin.turn()
            assert [one["type"] for one in frames] == ["CHAT_STREAM", "CHAT", "CHAT_STREAM_END"]
            assert {one["correlation_id"] for one in frames} == {"mine"}
            threads += [one["thread_id"] for one in frames]
        assert len(set(threads)) == 1
        other = owner.chat("/help")["thread_id"]
        admin.send(type="CHAT", payload="/help", thread_id=other)
        assert {one["thread_id"] for one in admin.turn()} == {other}
        owner.request("DELETE", f"/threads/{threads[0]}")
        admin.send(type="CHAT", payload="[[say again]]")
        assert admin.turn()[-1]["thread_id"] not in threads


@pytest.mark.parametrize("token", ["wrong", "", None])
def test_without_a_good_token_nobody_is_let_in(butler: ButlerServer, token: str | None) -> None:
    stranger = butler.client(token)
    if token:
        with pytest.raises(InvalidStatus) as refused, open_socket(stranger):
            pass
        assert refused.value.response.status_code == 401
        assert b'"unauthorized"' in (refused.value.response.body or b"")
    with open_socket(stranger, by_header=False) as socket:
        error = socket.next()
        assert (error["type"], error["code"]) == ("ERROR", "unauthorized")
        assert socket.closed() == (1008, "unauthorized")


def test_who_says_nothing_is_sent_away_after_five_seconds(butler: ButlerServer) -> None:
    with open_socket(butler.client(None), by_header=True) as socket:
        assert socket.next(8)["code"] == "unauthorized"
        assert socket.closed()[0] == 1008


def test_a_page_of_another_origin_is_refused_whatever_it_carries(butler: ButlerServer, owner: Client) -> None:
    cookie = {"Cookie": f"butler_token={owner.token}"}
    for origin in ("https://evil.example", "null", "http://["):
        for headers in ({}, cookie):
            with pytest.raises(InvalidStatus) as refused, open_socket(owner, origin=origin, headers=headers):
                pass
            assert refused.value.response.status_code == 403
    with open_socket(butler.client(None), origin=butler.url, headers=cookie) as page:
        page.send(type="CHAT", payload="[[say hello]]")
        assert text_of(page.turn()) == "hello"


def test_every_connection_is_asked_and_told_and_late_comers_too(butler: ButlerServer, owner: Client) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(open_socket(owner)) for _ in range(2))
        action_id = ask(first)
        assert second.until(lambda one: one.get("action_id") == action_id)["type"] == "AUTH_REQUEST"
        late = stack.enter_context(open_socket(owner))
        assert late.until(lambda one: one.get("action_id") == action_id)["type"] == "AUTH_REQUEST"
        [approval] = [
            one for one in owner.get("/approvals", status="pending")["items"] if one["action_id"] == action_id
        ]
        owner.decided(approval["thread_id"], approve(approval))  # another face
        for socket in (first, second, late):
            update = socket.until("AUTH_STATUS_UPDATE")
            assert (update["action_id"], update["approved"]) == (action_id, True)
            assert socket.until("CHAT_STREAM_END")["stream_id"] == action_id
            assert len([one for one in socket.received if one.get("action_id") == action_id]) == 2
        assert len(butler.workshop.effects(approval["args"]["text"])) == 1


def test_a_member_is_asked_only_what_the_policy_lets_it_decide(owner: Client, member: Client) -> None:
    with open_socket(member) as mia, open_socket(owner) as admin:
        text = fresh()
        mia.send(type="CHAT", payload=call("append_line", text))
        assert "AUTH_REQUEST" not in [one["type"] for one in mia.turn()]
        action_id = asked(admin, text)
        mia.send(type="AUTH_RESPONSE", action_id=action_id, approved=True)
        assert mia.until("ERROR")["code"] == "not_an_approver"
        admin.send(type="AUTH_RESPONSE", payload={"action_id": action_id, "approved": False, "reason": "not now"})
        assert admin.until("AUTH_STATUS_UPDATE")["payload"]["decision"]["reason"] == "not now"
        assert "not now" in text_of(mia.turn())
        # The member's own draft rule: whoever asked may decide.
        mia.send(type="CHAT", payload=call("delete_thing", target="draft-1"))
        own = mia.until("AUTH_REQUEST")["action_id"]
        mia.send(type="AUTH_RESPONSE", action_id=own, approved=True)
        assert mia.until("CHAT_STREAM")["stream_id"] == own
        mia.until("CHAT_STREAM_END")


@pytest.mark.parametrize("approved", ["true", 1, None, [True]])
def test_anything_but_a_boolean_is_an_error_and_decides_nothing(owner: Client, approved: object) -> None:
    parked = park(owner, fresh())["approvals"][0]
    with open_socket(owner) as admin:
        admin.send(type="AUTH_RESPONSE", action_id=parked["action_id"], approved=approved)
        error = admin.until("ERROR")
        assert (error["code"], error["action_id"]) == ("invalid_request", parked["action_id"])
        admin.send(type="AUTH_RESPONSE", action_id=parked["action_id"], approved=True, fingerprint="0" * 64)
        assert admin.until("ERROR")["code"] == "stale_decision"
        assert owner.approval(parked["action_id"])["status"] == "pending"
        for _ in range(2):
            admin.send(type="AUTH_RESPONSE", action_id=parked["action_id"], approved=False)
        error = admin.until("ERROR")
        assert (error["code"], error["decision"]["decision"]) == ("already_decided", "reject")
        admin.send(type="AUTH_RESPONSE", action_id="nothing", approved=True)
        assert admin.until("ERROR")["code"] == "not_found"


def test_what_is_no_frame_gets_an_error_and_the_talk_goes_on(owner: Client) -> None:
    with open_socket(owner) as admin:
        for raw in ("{", "[]", '{"type": "CHAT"}', '{"type": "CHAT", "payload": "x", "zzz": 1}', b"\x00",
                    '{"type": "?"}', json.dumps({"type": "CHAT", "payload": "x", "thread_id": "nowhere"})):  # fmt: skip
            admin.raw(raw)
            assert admin.until("ERROR")["code"] in ("invalid_request", "not_found")
        admin.raw(json.dumps({"type": "CHAT", "payload": "x" * (5 * 1024 * 1024)}))
        assert admin.until("ERROR")["code"] == "too_large"
        admin.send(type="CHAT", payload="[[say still here]]")
        assert text_of(admin.turn()) == "still here"
        admin.raw("x" * (9 * 1024 * 1024))
        assert admin.closed()[0] == 1009


def test_an_error_is_one_apology_and_one_end(owner: Client) -> None:
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload="[[status 400]]")
        frames = admin.turn()
        assert [one["type"] for one in frames][-2:] == ["CHAT", "CHAT_STREAM_END"]
        assert "sorry" in frames[-2]["payload"]
        assert [one["type"] for one in frames].count("CHAT_STREAM_END") == 1


def test_a_message_while_something_waits_is_kept_and_becomes_the_next_turn(owner: Client) -> None:
    with open_socket(owner) as admin:
        action_id = ask(admin)
        admin.send(type="CHAT", payload="[[say and then this]]")
        assert "1 approval(s)" in admin.until("CHAT")["payload"]
        admin.send(type="AUTH_RESPONSE", action_id=action_id, approved=False)
        assert admin.turn()[-1]["stream_id"] == action_id
        assert text_of(admin.turn()) == "and then this"


def test_a_client_that_goes_away_cancels_nothing(owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload=f"[[hold {gate} 1]][[say first second third]]")
        thread_id = admin.until("CHAT_STREAM")["thread_id"]
    with open_socket(owner) as again:
        seen = again.until("CHAT_STREAM")
        assert seen["thread_id"] == thread_id
        model.release(gate)
        frames = [seen, *again.turn()]
        assert text_of(frames) == "first second third"


def test_a_slow_reader_loses_nothing_and_holds_nobody_up(owner: Client) -> None:
    with open_socket(owner, compression=None) as slow, open_socket(owner) as quick:
        # The slow one reads nothing while far more is streamed than the wire takes.
        slow.connection.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        quick.send(type="CHAT", payload="[[tokens 8000]]")
        whole = text_of(quick.turn(30))
        action_id = ask(quick)
        frames = slow.turn(30)
        assert text_of(frames) == whole
        assert slow.until(lambda one: one.get("action_id") == action_id)["type"] == "AUTH_REQUEST"
        quick.send(type="AUTH_RESPONSE", action_id=action_id, approved=False)


def test_a_token_that_ends_closes_its_connections(butler: ButlerServer, owner: Client) -> None:
    name = fresh("user")
    client = butler.client(owner.post("/users", {"name": name, "role": "member"}).json()["token"])
    with open_socket(client) as socket:
        owner.request("PATCH", f"/users/{name}", json={"disabled": True})
        assert socket.closed() == (1008, "unauthorized")


def test_who_is_no_admin_any_more_hears_no_more_of_others_turns(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    name, secret = fresh("admin"), fresh("secret")
    second = butler.client(owner.post("/users", {"name": name, "role": "admin"}).json()["token"])
    again = f"{call('append_line', fresh())}[[then]]{call('append_line', fresh())}[[then]][[say {secret}]]"
    parked = member.chat(again)
    with open_socket(second) as socket:
        first = parked["approvals"][0]["action_id"]
        socket.until(lambda one: one["type"] == "AUTH_REQUEST" and one["action_id"] == first)
        socket.send(type="AUTH_RESPONSE", action_id=first, approved=True)
        socket.until("CHAT_STREAM_END")
        assert owner.request("PATCH", f"/users/{name}", json={"role": "member"}).status_code == 200
        assert socket.closed()[0] == 1008
    with open_socket(second) as socket:
        socket.send(type="CHAT", payload="[[say hello]]")
        socket.turn()
        owner.decided(parked["thread_id"], approve(owner.approvals(parked["thread_id"])[0]))
        socket.send(type="CHAT", payload="[[say hello]]")
        socket.turn()
        assert secret not in json.dumps(socket.received)


def test_too_many_connections_and_too_many_frames_are_refused(butler: ButlerServer, owner: Client) -> None:
    client = butler.client(owner.post("/users", {"name": fresh("user"), "role": "member"}).json()["token"])
    with ExitStack() as stack:
        many = [stack.enter_context(open_socket(client)) for _ in range(20)]
        with open_socket(client) as one_more:
            assert one_more.next()["code"] == "rate_limited"
            assert one_more.closed() == (1013, "rate_limited")
        with suppress(ConnectionClosed):  # the server may have had enough before the last one
            for _ in range(400):
                many[0].raw("{")
        assert many[0].closed() == (1008, "too many frames that were refused")


def test_the_server_that_stops_says_so_and_the_talk_goes_on_after_the_restart(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    with open_socket(owner) as admin:
        action_id = ask(admin)
        assert server.stop() == 0
        assert admin.closed()[0] == 1012
    server.start()
    with open_socket(owner) as admin:
        assert admin.until("AUTH_REQUEST")["action_id"] == action_id
        owner.post(f"/approvals/{action_id}", {"decision": "reject"})
        update, *rest = admin.turn()
        assert update["type"] == "AUTH_STATUS_UPDATE" and rest[-1]["type"] == "CHAT_STREAM_END"
    shown = [row for row in owner.get("/audit")["items"] if row["event"] == "shown" and row["via"] == "socket"]
    assert [row["action_id"] for row in shown] == [action_id]
    wait_until(lambda: server.stderr.count("Traceback") == 0, "a clean log")
