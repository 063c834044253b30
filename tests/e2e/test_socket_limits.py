"""What a connection may cost before it is known who is there, and how often somebody may come (F2, B5)."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from service.socket.door import MOST_FROM_ONE
from tests.support.client import Client
from tests.support.orders import fresh
from tests.support.server import ButlerServer
from tests.support.sockets import open_socket, text_of


def test_a_stranger_can_not_send_a_large_frame(butler: ButlerServer) -> None:
    with open_socket(butler.client(None)) as stranger:
        stranger.raw(json.dumps({"type": "AUTH", "token": "x" * 70_000}))
        assert stranger.closed()[0] == 1009


@pytest.mark.parametrize("raw", [b"\x89\xfd" + bytes(129), b"\x00\x80" + bytes(4)], ids=["pings", "empty fragments"])
def test_a_stranger_can_not_go_on_with_frames_that_say_nothing(butler: ButlerServer, raw: bytes) -> None:
    with open_socket(butler.client(None)) as stranger:
        wire = stranger.connection.socket
        wire.sendall(b"\x01\x81" + bytes(4) + b"x")
        start = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < start + 30:
                wire.sendall(raw * 100)
        # Long before the time in which a sign-in has to come is over.
        assert time.monotonic() < start + 4


def test_what_comes_right_behind_the_sign_in_is_read_whatever_its_size(butler: ButlerServer, owner: Client) -> None:
    with open_socket(butler.client(None)) as socket:
        # Sent in one go, so that the server has the large frame before it knows whose it is.
        wire = socket.connection
        with wire.protocol_mutex:
            for frame in (
                {"type": "AUTH", "token": owner.token},
                {"type": "CHAT", "payload": f"[[say large]] {'x' * 150_000}"},
                {"type": "CHAT", "payload": "[[say small]]"},
            ):
                wire.protocol.send_text(json.dumps(frame).encode())
            wire.socket.sendall(b"".join(wire.protocol.data_to_send()))
        assert [text_of(socket.turn()), text_of(socket.turn())] == ["large", "small"]


def test_a_sign_in_in_fragments_counts(butler: ButlerServer, owner: Client) -> None:
    stranger = butler.client(None)
    with open_socket(stranger) as socket:
        socket.connection.send(iter(['{"type": "AUTH", ', f'"token": "{owner.token}"', "}"]))
        socket.send(type="CHAT", payload="[[say in parts]]")
        assert text_of(socket.turn()) == "in parts"


def test_one_address_can_not_fill_the_door_with_strangers(butler: ButlerServer, owner: Client) -> None:
    stranger = butler.client(None)
    with ExitStack() as stack:
        for _ in range(MOST_FROM_ONE):
            stack.enter_context(open_socket(stranger))
        with pytest.raises(InvalidStatus) as refused, open_socket(stranger):
            pass
        assert refused.value.response.status_code == 429
        assert b"did not say who they are" in (refused.value.response.body or b"")
        with open_socket(owner) as known:
            known.send(type="CHAT", payload="[[say hello]]")
            assert text_of(known.turn()) == "hello"


def test_an_agent_that_comes_again_and_again_is_told_to_wait(butler: ButlerServer) -> None:
    name = fresh("restless")
    client = butler.user_add(name, "agent")
    answers = []
    for _ in range(25):
        with open_socket(client) as socket:
            with suppress(ConnectionClosed):
                socket.raw("{")  # answered in any case, so there is something to wait for
            answers.append(socket.next())
            if answers[-1]["code"] == "rate_limited":
                assert "connect too often" in answers[-1]["detail"]
                assert socket.closed() == (1013, "rate_limited")
                break
    assert [one["code"] for one in answers][-2:] == ["invalid_request", "rate_limited"]
    assert len(answers) > 15
