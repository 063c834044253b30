"""A downstream agent for tests, on a real socket, that answers when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.client import Client, Json
from tests.support.polling import wait_until
from tests.support.sockets import Socket, open_socket


def agent_of(owner: Client, name: str) -> Json:
    """What the tool says of an agent."""
    return next(one for one in agents(owner) if one["name"] == name)


def agents(owner: Client) -> list[Json]:
    """What `list_agents` gives, without a model."""
    import json

    reply = owner.chat("/list_agents")["reply"]
    found: list[Json] = json.loads(reply)["agents"] if reply.startswith("{") else []
    return found


@contextmanager
def agent_online(owner: Client, client: Client, name: str) -> Iterator[Socket]:
    """The agent's connection, once the house knows that it is there."""
    with open_socket(client) as socket:
        wait_until(lambda: agent_of(owner, name)["status"] == "online", f"{name} is online")
        yield socket


def answer(socket: Socket, directive: Json, text: object) -> None:
    """Answer a command."""
    socket.send(type="CHAT", correlation_id=directive["correlation_id"], payload=text)
