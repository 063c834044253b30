"""Decisions at a terminal: the action is shown first, and only a yes runs it."""

from __future__ import annotations

import re
import signal
import sys

import pytest

from butler.types import Json
from tests.support.client import Client
from tests.support.orders import fresh, park
from tests.support.server import ButlerServer
from tests.support.shell import Terminal


def parked(client: Client, text: str) -> Json:
    """Park one call; gives its approval."""
    one: Json = park(client, text)["approvals"][0]
    return one


def test_a_yes_runs_what_was_shown(butler: ButlerServer, owner: Client) -> None:
    text = fresh("yes")
    one = parked(owner, text)
    with Terminal(butler, "approve", one["code"]) as terminal:
        shown = terminal.until("[y/N]")
        assert text in shown
        assert one["fingerprint"] in shown
        assert owner.approval(one["action_id"])["status"] == "pending"
        terminal.type("y")
        assert terminal.ended() == 0
    assert "approved, done" in terminal.shown
    assert len(butler.workshop.effects(text)) == 1


@pytest.mark.parametrize("answer", ["", "n", "no", "yess", "\x04"])
def test_anything_else_leaves_it_waiting(butler: ButlerServer, owner: Client, answer: str) -> None:
    one = parked(owner, fresh("no"))
    with Terminal(butler, "approve", one["code"]) as terminal:
        terminal.until("[y/N]")
        terminal.type(answer)
        assert terminal.ended() == 3
    assert "still waits" in terminal.shown
    assert owner.approval(one["action_id"])["status"] == "pending"


def test_an_interrupt_at_the_question_decides_nothing(butler: ButlerServer, owner: Client) -> None:
    one = parked(owner, fresh("interrupted"))
    with Terminal(butler, "approve", one["code"]) as terminal:
        terminal.until("[y/N]")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ended() not in (0, 3)
    assert "Traceback" not in terminal.shown
    assert owner.approval(one["action_id"])["status"] == "pending"


def test_each_of_several_is_asked_for(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh("each"), fresh("each")]
    one, two = (parked(owner, text) for text in texts)
    with Terminal(butler, "approve", one["code"], two["code"]) as terminal:
        terminal.until("[y/N]")
        terminal.type("n")
        terminal.until(f'"{texts[1]}"')
        terminal.until("[y/N]", after=f'"{texts[1]}"')
        terminal.type("y")
        assert terminal.ended() == 3
    assert [len(butler.workshop.effects(text)) for text in texts] == [0, 1]


def test_with_yes_nothing_is_asked(butler: ButlerServer, owner: Client) -> None:
    text = fresh("sure")
    one = parked(owner, text)
    with Terminal(butler, "approve", one["code"], "--yes") as terminal:
        assert terminal.ended() == 0
    assert "[y/N]" not in terminal.shown
    assert len(butler.workshop.effects(text)) == 1


def test_what_was_changed_meanwhile_is_not_what_was_shown(butler: ButlerServer, owner: Client) -> None:
    one = parked(owner, fresh("meanwhile"))
    with Terminal(butler, "approve", one["code"]) as terminal:
        terminal.until("[y/N]")
        owner.decided(one["thread_id"], {"action_id": one["action_id"], "decision": "reject", "reason": "faster"})
        terminal.type("y")
        assert terminal.ended() == 5
    assert "faster" in terminal.shown


def test_edited_arguments_are_shown_before_they_run(butler: ButlerServer, owner: Client) -> None:
    text, better = fresh("typo"), fresh("fixed")
    one = parked(owner, text)
    editor = butler.home / "fix.py"
    editor.write_text(f"import sys\nopen(sys.argv[1], 'w').write('{{\"text\": \"{better}\"}}')\n")
    with Terminal(butler, "approve", one["code"], "--edit", VISUAL=f"{sys.executable} {editor}") as terminal:
        shown = terminal.until("[y/N]")
        assert shown.index("instead, it would run with") < shown.index(better)
        terminal.type("y")
        assert terminal.ended() == 0
    assert butler.workshop.effects(text) == []
    assert len(butler.workshop.effects(better)) == 1


def test_on_a_narrow_screen_the_whole_text_is_shown_and_stays_in_its_column(
    butler: ButlerServer, owner: Client
) -> None:
    text = fresh("narrow") + " " * 80 + "risk        safe " + "z" * 200
    one = parked(owner, text)
    with Terminal(butler, "approvals", "show", one["code"], columns=50) as terminal:
        assert terminal.ended() == 0
    lines = re.sub(r"\x1b\[[\d;]*m|\r", "", terminal.shown).split("\n")
    assert all(len(line) <= 50 for line in lines)
    assert f'text = "{text}"' in "".join(line[14:] for line in lines)
    assert [line for line in lines if line.startswith("  risk")] == [f"  risk        {one['risk']}"]
