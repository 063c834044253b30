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
    found: set[int] = set()
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        # Looked for anew after each round: what a killed one leaves comes next.
        orphans = [child for child in _children() if _is_of_a_maid(child.pid)]
        alive = [one for child in orphans for one in (child, *_below(child)) if not _has_ended(one)]
        for process in alive:
            found.add(process.pid)
            with suppress(psutil.Error):
                process.kill()
        for child in orphans:
            _reap(child.pid)
        if not orphans:
            break
        time.sleep(0.002)
    return len(found)


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
        now = await asyncio.to_thread(_ended_children) if _some_child_has_ended() else set()
        for pid in ended & now:
            _reap(pid)
        ended = now - ended


def _reap(pid: int) -> None:
    """Let go of a child if it has ended."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _children() -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process().children()
    return []


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


def _ended_children() -> set[int]:
    return {child.pid for child in _children() if _has_ended(child)}
