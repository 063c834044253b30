"""`butler chat` when things go wrong: signals, restarts, lost threads, poor terminals, text that wants to steer."""

from __future__ import annotations

import signal

import pytest

from tests.support.client import Client
from tests.support.orders import fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.shell import LEAVE, PROMPT, Terminal, begun_talk


@pytest.fixture
def talk(butler: ButlerServer) -> Terminal:
    """A talk in a new thread, at its first prompt."""
    return begun_talk(butler)


def test_at_an_empty_prompt_a_second_ctrl_c_leaves(talk: Terminal) -> None:
    with talk:
        talk.press("half a mess\x03")
        talk.then(PROMPT)
        talk.press("\x03")
        talk.then("leaves")
        talk.then(PROMPT)
        talk.press("\x03")
        assert talk.ended() == 130
        assert talk.echoes


def test_a_sigterm_leaves_the_terminal_as_it_was(talk: Terminal, model: ScriptedModel) -> None:
    with talk:
        talk.process.send_signal(signal.SIGTERM)
        assert talk.ended() == 143
        assert talk.echoes
        assert "Traceback" not in talk.shown


def test_a_sigterm_in_the_middle_of_an_answer_too(talk: Terminal, model: ScriptedModel) -> None:
    marker = fresh("term")
    model.reply(text="begun and never ended", hold_after=[(1, "never")], marker=marker)
    with talk:
        talk.type(marker)
        talk.then("begun")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.ended() == 143
        assert talk.echoes


def test_the_answer_goes_on_over_a_restart_and_nothing_is_said_twice(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    marker = fresh("restart")
    model.reply(text="alpha beta gamma delta", hold_after=[(2, "never")], marker=marker)
    model.reply(text="alpha beta gamma delta", marker=marker)
    with Terminal(server, "chat") as talk:
        talk.then("Ctrl-D leaves")
        talk.type(marker)
        talk.then("beta")
        server.restart()
        talk.then("begins anew")
        assert "alpha" not in talk.then("delta")
        talk.then(PROMPT)
        talk.press(LEAVE)
        assert talk.ended() == 0


def test_while_the_server_is_away_a_message_is_given_back(make_butler: MakeButler) -> None:
    server = make_butler().start()
    with Terminal(server, "chat") as talk:
        talk.then("Ctrl-D leaves")
        server.stop()
        talk.type("are you there")
        talk.then("No Butler")
        talk.then("are you there")
        server.start()
        talk.press("\n")
        talk.then("You said: are you there")


def test_nothing_that_is_said_can_steer_the_terminal(talk: Terminal, model: ScriptedModel, owner: Client) -> None:
    marker = fresh("steer")
    model.reply(
        text="before \x1b]0;title\x07 \x1b[2J \u202e after\r\n\n\n<b>bold</b> [text](http://host/x)", marker=marker
    )
    with talk:
        talk.type(marker)
        said = talk.then("http://host/x")
        assert "\\u001b]0;title\\u0007" in said
        assert "\x1b]" not in said
        assert "\x1b[2J" not in said
        assert "\u202e" not in said
        assert "<b>bold</b>" in said


def test_from_a_thread_that_was_deleted_the_talk_goes_on_in_a_new_one(talk: Terminal, owner: Client) -> None:
    first = fresh("deleted")
    with talk:
        talk.type(first)
        talk.then(f"You said: {first}")
        talk.then(PROMPT)
        [thread] = [one for one in owner.get("/threads")["items"] if one["title"] == first]
        owner.request("DELETE", f"/threads/{thread['thread_id']}")
        talk.type("still there?")
        talk.then("begins a new one")
        talk.then("still there?")
        talk.press("\n")
        talk.then("You said: still there?")


def test_at_a_dumb_terminal_it_is_plain_text(butler: ButlerServer) -> None:
    with Terminal(butler, "chat", TERM="dumb") as talk:
        talk.then("Ctrl-D leaves")
        talk.type("plain")
        talk.then("You said: plain")
        assert "\x1b" not in talk.then("\n> ")
        talk.type("/quit")
        assert talk.ended() == 0


def test_without_a_server_or_a_right_to_it_there_is_no_talk(butler: ButlerServer) -> None:
    with Terminal(butler, "chat", BUTLER_TOKEN="nobody-has-this") as talk:
        assert talk.ended() == 4
        assert "BUTLER_TOKEN" in talk.shown
    with Terminal(butler, "chat", BUTLER_URL="http://127.0.0.1:9") as talk:
        assert talk.ended() == 5
        assert "butler serve" in talk.shown
