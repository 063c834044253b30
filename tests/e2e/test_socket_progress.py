"""Long work shows at the socket what is going on, and a turn that is cancelled says so (E5, B3)."""

from __future__ import annotations

from tests.support.client import Client, Json
from tests.support.orders import call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.sockets import Socket, open_socket, text_of


def progress(socket: Socket) -> list[tuple[str, Json]]:
    """The frames that tell of work; to a client that knows the seed's fields alone they are empty pieces of text."""
    frames = [one for one in socket.received if "event" in one]
    assert {(one["type"], one["payload"]) for one in frames} <= {("CHAT_STREAM", "")}
    assert all(one["stream_id"] and one["thread_id"] and one["run_id"] for one in frames)
    return [(one["event"], one["data"]) for one in frames]


def test_what_tools_do_is_told_beside_the_text(owner: Client) -> None:
    text = fresh()
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload=f"{call('append_line', text)}[[then]][[say it is done]]")
        first = admin.turn()
        assert [(kind, one["phase"]) for kind, one in progress(admin)] == [("tool", "proposed")]
        action_id = next(one["action_id"] for one in first if one["type"] == "AUTH_REQUEST")
        admin.send(type="AUTH_RESPONSE", action_id=action_id, approved=True)
        second = admin.turn()
        proposed, started, done = (one for _, one in progress(admin))
        assert (started["phase"], done["phase"]) == ("started", "done")
        assert {one["action_id"] for one in (proposed, started, done)} == {action_id}
        assert proposed["args"] == {"text": text} and "wrote" in done["result"]
        assert {one["stream_id"] for one in second if "event" in one} == {action_id}
        assert text_of(second) == "it is done"
        assert [one["seq"] for one in admin.received] == list(range(1, len(admin.received) + 1))


def test_a_notice_of_a_turn_is_told(owner: Client) -> None:
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload=f"[[rounds 0]]{call('note_line', fresh())}")
        assert "limit of 8 tool rounds" in text_of(admin.turn())
        told = progress(admin)
        assert [kind for kind, _ in told].count("tool") == 8 * 3
        assert told[-1][0] == "notice" and "limit of 8 tool rounds" in told[-1][1]["text"]


def test_a_turn_that_is_cancelled_while_it_streams_says_so_and_ends_once(owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    with open_socket(owner) as admin, open_socket(owner) as other:
        admin.send(type="CHAT", payload=f"[[hold {gate} 2]][[say one two three]]")
        run_id = admin.until("CHAT_STREAM")["run_id"]
        while text_of([one for one in admin.received if one.get("run_id") == run_id]) != "one two":
            admin.next()
        assert owner.post(f"/runs/{run_id}/cancel", {}).status_code == 202
        for socket in (admin, other):
            socket.until("CHAT_STREAM_END")
            of_run = [one for one in socket.received if one.get("run_id") == run_id]
            assert [one["type"] for one in of_run][-2:] == ["CHAT", "CHAT_STREAM_END"]
            assert of_run[-2]["payload"] == "one two\n\n(This turn was cancelled.)"
            assert [one["type"] for one in of_run].count("CHAT_STREAM_END") == 1
        admin.send(type="CHAT", payload="[[say next]]")
        assert text_of(admin.turn()) == "next"


def test_a_parked_turn_that_is_cancelled_says_so(owner: Client) -> None:
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload=call("append_line", fresh()))
        run_id = admin.turn()[-1]["run_id"]
        assert owner.post(f"/runs/{run_id}/cancel", {}).status_code == 202
        frames = admin.turn()
        assert [one["type"] for one in frames if "event" not in one][-2:] == ["CHAT", "CHAT_STREAM_END"]
        assert "This turn was cancelled." in frames[-2]["payload"]
        if "AUTH_STATUS_UPDATE" not in admin.types():
            admin.until("AUTH_STATUS_UPDATE")
