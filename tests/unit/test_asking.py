"""Questions at a terminal: what is an answer, what is not, and that an interrupt is heard whenever it comes."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from service.cli.asking import ask_line, says_yes, unechoed


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a terminal where a person types; the other end is standard input."""
    master, slave = pty.openpty()
    with open(slave, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield master
    os.close(master)


def typed_when_asked(keyboard: int, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Type this as soon as the question has been asked."""
    real: Any = select.select

    def watched(*args: Any) -> Any:
        os.write(keyboard, text.encode())
        monkeypatch.setattr(select, "select", real)
        return real(*args)

    monkeypatch.setattr(select, "select", watched)


@pytest.mark.parametrize(("text", "line"), [("some words\n", "some words"), ("\n", ""), ("\x04", None), ("漢\n", "漢")])
def test_a_line_is_an_answer_and_an_end_of_input_is_none(
    keyboard: int, monkeypatch: pytest.MonkeyPatch, text: str, line: str | None
) -> None:
    typed_when_asked(keyboard, monkeypatch, text)
    assert ask_line("? ") == line


@pytest.mark.parametrize(("text", "yes"), [("y\n", True), ("YES \n", True), ("\n", False), ("yess\n", False)])
def test_only_a_yes_is_a_yes(keyboard: int, monkeypatch: pytest.MonkeyPatch, text: str, yes: bool) -> None:
    typed_when_asked(keyboard, monkeypatch, text)
    assert says_yes("?") is yes


def test_what_was_typed_before_the_question_is_no_answer(keyboard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.write(keyboard, b"y\n")
    typed_when_asked(keyboard, monkeypatch, "later\n")
    assert ask_line("? ") == "later"


def test_an_interrupt_between_question_and_wait_ends_the_wait(keyboard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A handler that does nothing stands for the moment in which Python has taken the signal but not yet acted on it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    real: Any = select.select

    def watched(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args, 30)

    monkeypatch.setattr(select, "select", watched)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask_line("? ")
    finally:
        signal.signal(signal.SIGINT, before)


def test_typing_is_not_shown_meanwhile_and_is_again_afterwards(keyboard: int) -> None:
    def echoes() -> bool:
        return bool(termios.tcgetattr(keyboard)[3] & termios.ECHO)

    with pytest.raises(RuntimeError), unechoed():
        assert not echoes()
        raise RuntimeError
    assert echoes()
