"""`butler chat` at a terminal of its own: turns, decisions, interrupts, threads, restarts, another shell beside it."""

from __future__ import annotations

import os
import signal
import stat
import sys

import pytest

from tests.support.client import Client
from tests.support.orders import call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import OWNER_TOKEN, ButlerServer, MakeButler
from tests.support.shell import LEAVE, PROMPT, QUESTION, Terminal, begun_talk


@pytest.fixture
def talk(butler: ButlerServer) -> Terminal:
    """A talk in a new thread, at its first prompt."""
    return begun_talk(butler)


def test_a_talk_goes_on_in_one_thread_until_ctrl_d(talk: Terminal, owner: Client) -> None:
    first, second = fresh("first"), fresh("second")
    with talk:
        talk.type(first)
        talk.then(f"You said: {first}")
        talk.then(PROMPT)
        talk.type(second)
        talk.then(f"You said: {second}")
        talk.then(PROMPT)
        talk.press(LEAVE)
        assert talk.ended() == 0
        assert talk.echoes
    [thread] = [one for one in owner.get("/threads")["items"] if one["title"] == first]
    assert [text for role, text in owner.transcript(thread["thread_id"]) if role == "user"] == [first, second]


def test_words_come_as_the_model_says_them(talk: Terminal, model: ScriptedModel) -> None:
    model.reply(text="one two three", hold_after=[(1, "more")], marker="slowly")
    with talk:
        talk.type("slowly")
        talk.until("one")
        assert "three" not in talk.plain
        model.release("more")
        talk.then("one two three")
        talk.then(PROMPT)
        talk.press(LEAVE)
        assert talk.ended() == 0


def test_a_call_is_shown_whole_and_runs_on_approve(talk: Terminal, butler: ButlerServer) -> None:
    text = fresh("ask")
    with talk:
        talk.type(call("append_line", text))
        card = talk.then(QUESTION)
        assert f'text = "{text}"' in card
        assert "fingerprint" in card
        assert butler.workshop.effects(text) == []
        talk.type("a")
        talk.then(f"done: wrote {text}")
    assert len(butler.workshop.effects(text)) == 1


def test_it_is_denied_with_a_reason_answered_and_edited_right_there(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh("three") for _ in range(3)]
    better = fresh("better")
    editor = butler.home / "improve.py"
    editor.write_text(f"import sys\nopen(sys.argv[1], 'w').write('{{\"text\": \"{better}\"}}')\n")
    with Terminal(butler, "chat", VISUAL=f"{sys.executable} {editor}") as talk:
        talk.then("Ctrl-D leaves")
        talk.type(" ".join(call("append_line", text) for text in texts))
        talk.then(QUESTION)
        talk.type("d")
        talk.then("empty: ")
        talk.type("not this one")
        talk.then(QUESTION)
        talk.type("what?")
        talk.then("is no answer to this")
        talk.then(QUESTION)
        talk.type("respond")
        talk.then("in its place? ")
        talk.type("did it by hand")
        talk.then(QUESTION)
        talk.type("edit")
        talk.then(f"wrote {better}")
    decided = [owner.get("/approvals", status=state, limit=200)["items"] for state in ("rejected", "approved")]
    kinds = {
        one["args"]["text"]: (one["decision"]["decision"], one["decision"]["reason"], one["decision"]["via"])
        for items in decided for one in items if one["args"].get("text") in texts
    }  # fmt: skip
    assert sorted(kinds.values()) == [
        ("edit", None, "shell"), ("reject", "not this one", "shell"), ("respond", None, "shell"),
    ]  # fmt: skip
    assert [len(butler.workshop.effects(text)) for text in (*texts, better)] == [0, 0, 0, 1]


@pytest.mark.parametrize("keys", ["\n", "l\n", "\x04"])
def test_without_a_clear_answer_it_waits_and_can_be_approved_by_its_code(
    talk: Terminal, butler: ButlerServer, owner: Client, keys: str
) -> None:
    text = fresh("later")
    with talk:
        talk.type(call("append_line", text))
        talk.then(QUESTION)
        talk.press(keys)
        talk.then("it still waits")
        talk.then("/approve CODE")
        [one] = [item for item in owner.get("/approvals")["items"] if item["args"].get("text") == text]
        talk.then(PROMPT)
        talk.type(f"/approve {one['code']}")
        talk.then(f"done: wrote {text}")
    assert len(butler.workshop.effects(text)) == 1


def test_an_interrupt_at_the_question_decides_nothing_and_the_talk_goes_on(talk: Terminal, owner: Client) -> None:
    text = fresh("interrupted")
    with talk:
        talk.type(call("append_line", text))
        talk.then(QUESTION)
        talk.process.send_signal(signal.SIGINT)
        talk.then("it still waits")
        talk.then(PROMPT)
        [one] = [item for item in owner.get("/approvals")["items"] if item["args"].get("text") == text]
        assert one["status"] == "pending"
        talk.press(LEAVE)
        assert talk.ended() == 0


def test_what_was_typed_before_a_question_is_no_answer(
    talk: Terminal, butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = fresh("ahead")
    model.reply(calls=[{"name": "append_line", "arguments": {"text": text}}], hold="gate", marker=text)
    with talk:
        talk.type(text)
        wait_until(lambda: model.requests(text), "the model is asked")
        talk.press("a\n")
        model.release("gate")
        talk.then(QUESTION)
        talk.type("l")
        talk.then("it still waits")
    assert butler.workshop.effects(text) == []


def test_ctrl_c_stops_the_turn_and_the_talk_goes_on(talk: Terminal, model: ScriptedModel, owner: Client) -> None:
    marker = fresh("stop")
    model.reply(text="begun and never ended", hold_after=[(1, "never")], marker=marker)
    with talk:
        talk.type(marker)
        talk.then("begun")
        talk.process.send_signal(signal.SIGINT)
        talk.then("stopping")
        talk.then("stopped")
        talk.then(PROMPT)
        talk.type("and now")
        talk.then("You said: and now")
        talk.then(PROMPT)
    [thread] = [one for one in owner.get("/threads")["items"] if one["title"] == marker]
    assert thread["status"] == "idle"


def test_several_lines_are_one_message_pasted_or_typed(talk: Terminal, owner: Client) -> None:
    first = fresh("lines")
    with talk:
        talk.press(f"\x1b[200~{first}\nsecond line\x1b[201~\x1b\rthird line\n")
        talk.then(f"You said: {first} second line third line")
    [thread] = [one for one in owner.get("/threads")["items"] if first in one["title"]]
    assert owner.transcript(thread["thread_id"])[0] == ("user", f"{first}\nsecond line\nthird line")


def test_threads_are_listed_and_opened_with_what_waits_in_them(
    talk: Terminal, butler: ButlerServer, owner: Client
) -> None:
    text = fresh("elsewhere")
    one = park(owner, text)["approvals"][0]
    with talk:
        talk.type("/threads")
        assert "1 waiting" in talk.then("opens one")
        talk.type("/open 1")
        assert f'text = "{text}"' in talk.then(QUESTION)
        talk.type("a")
        talk.then(f"done: wrote {text}")
        talk.type("/open 99")
        talk.then("not in the list")
        talk.type("/open no-such-thread")
        talk.then("There is no thread")
        talk.then(PROMPT)
        talk.type("/quit")
        assert talk.ended() == 0
    assert owner.approval(one["action_id"])["execution"] == "done"


def test_a_message_behind_a_parked_call_is_answered_by_itself_after_it(butler: ButlerServer, owner: Client) -> None:
    text, later = fresh("parked"), fresh("queued")
    thread = park(owner, text)["thread_id"]
    with Terminal(butler, "chat", "--thread", thread) as talk:
        talk.then(QUESTION)
        talk.type("l")
        talk.then(PROMPT)
        talk.type(later)
        talk.then("your message is kept")
        talk.then(PROMPT)
        [one] = owner.approvals(thread)
        talk.type(f"/approve {one['code']}")
        talk.then(f"done: wrote {text}")
        talk.then(f"You said: {later}")


def test_a_call_that_waits_beside_a_running_one_is_told_at_once(
    talk: Terminal, butler: ButlerServer, owner: Client
) -> None:
    slow, text = fresh("slow"), fresh("beside")
    with talk:
        talk.type(f"{call('slow_note', slow)} {call('append_line', text)}")
        talk.then("waits for a decision")
        wait_until(lambda: butler.workshop.begun(slow), "the other one runs")
        [one] = [item for item in owner.get("/approvals")["items"] if item["args"].get("text") == text]
        owner.post(f"/approvals/{one['action_id']}", {"decision": "approve"})
        talk.then(f"append_line: wrote {text}")
        butler.workshop.let_go()
        talk.then(f"slow_note: wrote {slow}")
        talk.then(PROMPT)


def test_where_somebody_was_faster_it_says_who_and_what_came_of_it(
    talk: Terminal, butler: ButlerServer, owner: Client
) -> None:
    text = fresh("faster")
    with talk:
        talk.type(call("append_line", text))
        talk.then(QUESTION)
        [one] = [item for item in owner.get("/approvals")["items"] if item["args"].get("text") == text]
        owner.decided(one["thread_id"], {"action_id": one["action_id"], "decision": "approve"})
        talk.type("d")
        talk.then("empty: ")
        talk.type("too late")
        talk.then("approved by owner")
        talk.then(f"done: wrote {text}")
        talk.then(PROMPT)
    assert len(butler.workshop.effects(text)) == 1


def test_what_is_said_and_decided_elsewhere_is_told_at_the_prompt(butler: ButlerServer, owner: Client) -> None:
    first, other, text = fresh("shared"), fresh("other"), fresh("parked")
    thread = owner.chat(first)["thread_id"]
    with Terminal(butler, "chat", "--thread", thread) as talk:
        talk.then(f"You said: {first}")
        talk.then(PROMPT)
        talk.press("half typed")
        talk.then("half typed")
        owner.chat(other, thread)
        talk.then(f"You said: {other}")
        talk.then("half typed")
        talk.press("\x03")
        park(owner, text, thread_id=thread)
        assert QUESTION not in talk.then("waits for you")
        assert butler.workshop.effects(text) == []


def test_history_is_kept_for_the_person_alone_and_never_holds_the_token(
    make_butler: MakeButler,
) -> None:
    server = make_butler().start()
    with Terminal(server, "chat") as talk:
        talk.then("Ctrl-D leaves")
        talk.type("kept line")
        talk.then("You said: kept line")
        talk.type(f"my token is {OWNER_TOKEN}")
        talk.then("You said")
        talk.then(PROMPT)
        talk.press(LEAVE)
        assert talk.ended() == 0
    [kept] = (server.data / "shell").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(kept.parent).st_mode) == 0o700
    assert kept.read_text() == '"kept line"\n'
    with Terminal(server, "chat") as talk:
        talk.then("Ctrl-D leaves")
        talk.then(PROMPT)
        talk.press("\x1b[A\n")
        talk.then("You said: kept line")


def test_commands_tools_and_codes_are_completed(talk: Terminal, owner: Client) -> None:
    one = park(owner, fresh("completed"))["approvals"][0]
    with talk:
        talk.press("/appr")
        talk.then("/approvals")
        talk.press("\x03/append\t")
        talk.then("append_line")
        talk.press(f"\x03/approve {one['code'][:2]}")
        talk.then(one["code"])
