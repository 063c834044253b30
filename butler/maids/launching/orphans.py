"""Processes that come to Butler when a maid kills its keeper: Butler is the subreaper behind the keepers (D11).

Butler has other children, and they are not to be touched. A maid's processes are known by a limit: what their keeper
starts has a smaller hard limit for message queues than Butler itself. It is inherited whatever they do to environment,
group and session, and only root can raise it again.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import time
from contextlib import suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 5.0
PAUSE_SECONDS = 0.0005
QUIET_ROUNDS = 20
"""How often nothing has to be found: what forks and ends at once is missed now and then."""
LOOK_SECONDS = 2.0


def adopt_orphans() -> bool:
    """Make this process the parent of orphans below it; False where the system has no such thing."""
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


def end_orphans() -> int:
    """Kill what lost keepers left to this process, with all that is below; give how many were found.

    It blocks for some milliseconds: call it in a thread.
    """
    found: dict[int, set[int]] = {}
    deadline = time.monotonic() + END_SECONDS
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < deadline:
        quiet += 1
        # From above: what a killed one leaves comes to us, and is next.
        for pid in _children():
            if _is_of_a_maid(pid):
                quiet = 0
                # Killed before it is let go of: one that has ended still names its group, in which another may live.
                group = _kill(pid)
                if not _reaped(pid):
                    found.setdefault(group, set()).add(pid)
                elif pid != group:
                    found.setdefault(group, set())
        time.sleep(PAUSE_SECONDS)
    return sum(max(1, len(pids)) for pids in found.values())


def end_below(pid: int) -> None:
    """Kill all that is below a process, but not itself. It blocks for some milliseconds."""
    deadline = time.monotonic() + END_SECONDS
    with suppress(psutil.Error):
        top = psutil.Process(pid)
        while alive := [one for one in _below(top) if not _has_ended(one)]:
            for process in alive:
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)


async def reap_orphans(every: float = LOOK_SECONDS) -> None:
    """Let go of adopted processes that have ended, for ever. For a process whose children are all started by asyncio.

    Its own children are waited for by asyncio at once; what is still there at a second look was not started here.
    """
    ended: set[int] = set()
    while True:
        await asyncio.sleep(every)
        now = {pid for pid in _children() if _is_zombie(pid)} if _some_child_has_ended() else set()
        for pid in ended & now:
            _reaped(pid)
        ended = now - ended


def _children() -> list[int]:
    """The children of this process, as quickly as they can be had: some don't live for long."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as children:
                found += [int(pid) for pid in children.read().split()]
        return found
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process().children()]
    return found


def _reaped(pid: int) -> bool:
    """Let go of a child if it has ended."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def _kill(pid: int) -> int:
    """Kill a child with its group, which it gives: a group has no time to start another member."""
    group = pid
    with suppress(OSError):
        group = os.getpgid(pid)  # nobody can take a group's number while a member is not let go of
        if group not in (0, os.getpgrp()):
            os.killpg(group, signal.SIGKILL)
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return group


def _is_zombie(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return False


def _below(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return True


def _is_of_a_maid(pid: int) -> bool:
    """Whether its limit is below our own; also of one that has ended and was not waited for."""
    if not hasattr(resource, "RLIMIT_MSGQUEUE"):  # Linux only
        return False
    own = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
    with suppress(OSError), open(f"/proc/{pid}/limits", encoding="ascii", errors="replace") as limits:
        for line in limits:
            if line.startswith("Max msgqueue size"):
                hard = line.split()[4]
                return hard.isdigit() and (own == resource.RLIM_INFINITY or int(hard) < own)
    return False


def _some_child_has_ended() -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False
