"""A small process between Butler and a maid, so that nothing the maid starts can get away (D11).

Run as ``python -I -S keeper.py FD PROGRAM ARGUMENT…``; only the standard library is there. It is the subreaper of
the maid: whatever the maid starts stays among its descendants, also after a double fork, a session of its own or an
emptied environment. When the maid's own process has ended, the keeper ends all that is left. FD is a socket to
Butler: when Butler closes it, or dies, everything is ended at once. It tells ``{"pid"}`` or ``{"errno", "message",
"file"}`` at the start and ``{"exit", "left"}`` at the end, one JSON line each.

A maid that kills its keeper on purpose leaves what it started to Butler itself (see `orphans.py`), which knows it by
a limit that is set here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
SETTLE_SECONDS = 0.2
"""How long what the maid leaves may take to end by itself."""
END_SECONDS = 5.0
PAUSE_SECONDS = 0.0005
MOST_MESSAGES = 819_200
"""Bytes of message queues where there was no limit: Linux's own default."""


class Keeper:
    """Starts one program and outlives everything that comes from it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._status: int | None = None
        self._wake, wake = os.pipe()
        for descriptor in (self._wake, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake)
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the maid.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def run(self, command: list[str]) -> None:
        """Start the program, wait for its end, and end what it left behind."""
        try:
            maid = subprocess.Popen(command, start_new_session=True, preexec_fn=_mark)
        except OSError as error:
            self._tell(errno=error.errno, message=error.strerror, file=os.fsdecode(error.filename or ""))
            return
        self._tell(pid=maid.pid)
        _let_go_of_the_pipes()
        ended: set[int] = set()
        while self._status is None:
            if not self._wait(None):
                ended |= self._end_all(maid.pid)
                break
            self._reap(maid.pid)
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._reap(maid.pid) and (left := deadline - time.monotonic()) > 0 and self._wait(left):
            pass
        ended |= self._end_all(maid.pid)
        is_running = self._reap(maid.pid)
        self._tell(exit=self._status, left=len(ended - {maid.pid}), running=is_running)
        while is_running:
            # Something starts anew faster than it can be ended. Nobody waits for it, and it does not get away.
            self._end_all(maid.pid)
            is_running = self._reap(maid.pid)

    def _wait(self, seconds: float | None) -> bool:
        """Wait for a signal or the time; False if Butler wants the end or is gone."""
        ready, _, _ = select.select([self._control.fileno(), self._wake], [], [], seconds)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if self._control.fileno() not in ready:
            return True
        with contextlib.suppress(ConnectionError):
            return bool(self._control.recv(4096))
        return False

    def _reap(self, maid: int) -> bool:
        """Take note of what has ended; False if nothing is left. As the subreaper it knows this for certain."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == maid:
                    self._status = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def _end_all(self, maid: int) -> set[int]:
        """Kill all that is left, from above: what a killed one leaves comes to us, and is next."""
        killed: set[int] = set()
        deadline = time.monotonic() + END_SECONDS
        while self._reap(maid) and time.monotonic() < deadline:
            for pid in _children():
                killed.add(pid)
                _kill(pid)
            time.sleep(PAUSE_SECONDS)
        return killed

    def _tell(self, **what: object) -> None:
        with contextlib.suppress(OSError):  # Butler may be gone
            self._control.sendall(json.dumps(what).encode() + b"\n")


def _children() -> list[int]:
    """The children of this process, as quickly as they can be had: some don't live for long."""
    with contextlib.suppress(OSError), open("/proc/thread-self/children", "rb") as children:
        return [int(pid) for pid in children.read().split()]
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # The name in brackets may hold anything, also brackets.
                if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


def _kill(pid: int) -> None:
    """Kill a child with its group: a group has no time to start another member."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        if group not in (0, os.getpgrp()):
            os.killpg(group, signal.SIGKILL)


def _mark() -> None:
    """In the maid, before its program: a hard limit below Butler's own, which what comes from it inherits."""
    if hasattr(resource, "RLIMIT_MSGQUEUE"):  # Linux only
        hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
        lower = MOST_MESSAGES if hard == resource.RLIM_INFINITY else hard - 1
        if lower >= 0:
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (lower, lower))


def _let_go_of_the_pipes() -> None:
    """Butler shall see the end of the output when the maid closes it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _adopt_orphans() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    _adopt_orphans()
    Keeper(socket.socket(fileno=int(sys.argv[1]))).run(sys.argv[2:])
