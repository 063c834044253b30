"""Maids made of a few lines of Python, and a look at which of their processes are still there."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from butler.maids.contract import Launch, MaidEvent, Output, PermissionAnswer, PermissionRequest, Stop, Task
from butler.maids.launching.processes import MARK, Graces
from config.maid_types import MaidDefinition

QUICK = Graces(stdin=0.2, terminate=0.3, kill=5.0)

DAEMON = """
import os, subprocess, sys, time
def daemon(argv, env):
    '''Leave a process behind: double fork, a session of its own; it runs when this returns.'''
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.execve(argv[0], argv, env)
        os._exit(0)
    os.wait()
    os.close(writer)
    os.read(reader, 1)  # the other end is closed by the start of the program
SLEEP = [sys.executable, '-c', 'import time; time.sleep(600)', 'WORD']
"""
"""Put before a maid's program; WORD is replaced by a text by which its processes are known."""


def word() -> str:
    """A text that no other process has in its arguments."""
    return f"word-{uuid.uuid4().hex}"


def with_word(text: str) -> list[psutil.Process]:
    """The living processes that have a text in their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if text in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def with_mark(attempt_id: str) -> list[psutil.Process]:
    """The living processes that carry the mark of an attempt."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == attempt_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Notes:
    """A watcher that writes everything down and stops the maid where `stop` says so."""

    def __init__(self, stop: Callable[[MaidEvent], Stop | None] = lambda event: None) -> None:
        self.events: list[MaidEvent] = []
        self._stop = stop

    def event(self, event: MaidEvent) -> Stop | None:
        self.events.append(event)
        return self._stop(event)

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        raise AssertionError("nobody asks here")

    def texts(self, stream: str) -> list[str]:
        """What came through one stream, event by event."""
        return [event.text for event in self.events if isinstance(event, Output) and event.stream == stream]


def launch_of(folder: Path, *command: str, instruction: str = "write it down", **changes: Any) -> Launch:
    """A launch of a maid in fresh folders; `changes` are fields of its definition."""
    for name in ("tree", "home", "temp"):
        (folder / name).mkdir(exist_ok=True)
    prompt_file = folder / "prompt.txt"
    prompt_file.write_text("The whole prompt.\n", "utf-8")
    fields: dict[str, Any] = {
        "kind": "script",
        "label": "Maid",
        "provider": "local",
        "model": None,
        "role": "worker",
        "timeout": 20.0,
        **changes,
    }
    maid = MaidDefinition(maid_id="maid", command_template=command, **fields)
    return Launch(
        attempt_id=f"att_{uuid.uuid4().hex}",
        maid=maid,
        task=Task("mrun_1", "implement", instruction, folder / "project"),
        prompt="The whole prompt.",
        prompt_file=prompt_file,
        tree=folder / "tree",
        home=folder / "home",
        temp=folder / "temp",
        environment={"PATH": os.environ["PATH"], "HOME": str(folder / "home")},
    )


def python_maid(folder: Path, code: str, *items: str, **changes: Any) -> Launch:
    """A launch of a Python program."""
    return launch_of(folder, sys.executable, "-u", "-c", code.replace("{", "{{").replace("}", "}}"), *items, **changes)
