"""The socket at a running server, with a real client, frame by frame (http-api, *Agents and the socket*)."""

from __future__ import annotations

from tests.support.client import Client
from tests.support.downstream import agent_online, answer
from tests.support.server import ButlerServer
from tests.support.sockets import open_socket, text_of


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
        print(first)
        assert [one["type"] for one in first if one["type"] != "CHAT_STREAM"] == [
            "CHAT", "AUTH_REQUEST", "CHAT_STREAM_END"
        ]  # fmt: skip
        said, request = [one for one in first if one["type"] in ("CHAT", "AUTH_REQUEST")]
        assert said["payload"] == "I'll check the status of agent 7. Let me send an authorization request."
        assert (said["sender_name"], said["sender_role"]) == ("Butler", "BUTLER")
        assert request["command"] == "get_status 7"
        assert request["reasoning"] == "User requested to check agent status"
        admin.send(
            type="AUTH_RESPONSE", action_id=request["action_id"], approved=True, sender_id=1, sender_name="Admin",
            sender_role="ADMIN", target_id=2, timestamp="2024-01-01T00:00:03Z",
        )  # fmt: skip
        directive = seven.next()
        assert directive["payload"] == directive["command"] == "get_status 7"
        answer(seven, directive, "all is well")
        second = admin.turn()
        print(second)
        assert second[0]["type"] == "AUTH_STATUS_UPDATE" and second[0]["approved"] is True
        assert {one["stream_id"] for one in second[1:]} == {request["action_id"]}
        assert text_of(second) == "Checking status... Agent 7: Online"
        assert [one["type"] for one in second[-2:]] == ["CHAT", "CHAT_STREAM_END"]
        assert [one["seq"] for one in admin.received] == list(range(1, len(admin.received) + 1))
