"""``python -m tests.support.mother FD``: imports the server and the command line, then forks for each start.

Over the socket FD come four bytes of length with the descriptors for status, standard input, output and error, and
a JSON object with ``argv``, ``cwd`` and ``env``; the answer is the pid. The exit status goes to its own descriptor.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "service", "service.cli", "service.cli.talk", "service.http", "service.mcp", "service.notify", "butler.storage",
)  # fmt: skip
LATE = (
    "alembic.command",
    "butler.maids.acp.attempt",
    "encodings.idna",
    "httpx2",
    "mcp.server.streamable_http_manager",
    "openai.resources.chat.completions",
    "rich.markdown",
    "rich.table",
    "sqlite3",
)
"""What the programs import only when they are at work."""


@dataclass
class Job:
    """One program to start: what it is told, and its descriptors (status, input, output, error)."""

    told: dict[str, Any]
    files: list[int]


def preload() -> None:
    """Import all that the programs need; nothing of it may start a thread, which no fork takes along."""
    importlib.import_module("server")
    early = {"acp", "mcp"} & set(sys.modules)
    assert not early, f"the server imports {early} before it is needed: a second for every start"
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


def next_job(asked: socket.socket) -> Job | None:
    """Wait for a job; None when nobody asks any more."""
    length, files, _, _ = socket.recv_fds(asked, 4, 4)
    if len(length) < 4:
        return None
    text = asked.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    return Job(json.loads(text), files)


def mind(asked: socket.socket) -> Job | None:
    """Fork for each job, and tell each end; returns in a child what it is to run, and None at the end."""
    children: dict[int, int] = {}
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    while True:
        ready, _, _ = select.select([asked.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
            tell_ends(children)
        if asked.fileno() in ready:
            job = next_job(asked)
            if job is None:
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for file in (woken, waker, job.files[0], *children.values()):
                    os.close(file)
                return job
            children[pid] = job.files[0]
            for file in job.files[1:]:
                os.close(file)
            asked.sendall(pid.to_bytes(4, "big"))


def tell_ends(children: dict[int, int]) -> None:
    """Write down the exit status of every child that has ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = children.pop(pid)
        os.write(told, os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        os.close(told)


def _writer(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    whole = descriptor == 2 or os.isatty(descriptor)
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace" if descriptor == 2 else None, line_buffering=whole)


def become(job: Job) -> None:
    """Turn this child into the process that was asked for."""
    os.setsid()
    for number, file in enumerate(job.files[1:]):
        os.dup2(file, number)
        os.close(file)
    # The mother's own wrappers know her files, such as whether they can be rewound.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = _writer(1), _writer(2)
    os.chdir(job.told["cwd"])
    os.environ.clear()
    os.environ.update(job.told["env"])
    argv = job.told["argv"]
    if argv[0] == "-m":
        sys.path[0] = ""
        sys.argv = [argv[1], *argv[2:]]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(ROOT)
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    preload()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        child = mind(channel)
    if child is not None:
        become(child)
