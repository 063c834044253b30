"""Questions at a terminal: an interrupt is heard whenever it comes; what was typed before is no answer."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_BYTES = 65_536


def ask_line(question: str) -> str | None:
    """Show a question and read one line, without its end; None for an end of input (Ctrl-D).

    Raises: KeyboardInterrupt, also for a Ctrl-C between the question and the wait: plain `readline` would sleep on.
    """
    forget_typed()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        print(question, end="", flush=True)
        keyboard = sys.stdin.fileno()
        while True:
            ready, _, _ = select.select([keyboard, woken], [], [])
            if woken in ready:
                if signal.SIGINT in os.read(woken, 64):
                    raise KeyboardInterrupt
            else:
                line = os.read(keyboard, _MOST_BYTES)
                return line.decode("utf-8", "replace").rstrip("\r\n") if line else None
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waker)


def says_yes(question: str) -> bool:
    """Whether the answer to a question is yes; anything else is no."""
    answer = ask_line(f"{question} [y/N] ")
    return answer is not None and answer.strip().lower() in ("y", "yes")


def forget_typed() -> None:
    """Drop what was typed before it could have been meant for the question that comes."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


@contextmanager
def unechoed() -> Iterator[None]:
    """Meanwhile what is typed is not shown, so that it can't mix with what is being told."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(keyboard, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
