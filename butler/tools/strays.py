"""Processes that an action or a maid left behind, found by a mark in their environment."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psutil

VARIABLE = "BUTLER_ACTION_ID"
SECONDS = 5.0  # for all of them to end
STARTING_SECONDS = 1.0
"""How long a process that is just changing to its program may be without arguments and environment."""
KERNEL_THREADS = 2


def kill_strays(action_id: str, variable: str = VARIABLE) -> int:
    """Kill all processes whose `variable` is `action_id`, with their process groups; give how many were found.

    Used after a crash, when the processes of a half-done action may still run. The own process, its group
    and its ancestors are spared: the server itself may have been started by a tool.
    """
    mark = (variable, action_id)
    found: set[int] = set()
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < SECONDS:
        # Looked for anew after each round: a stray may just have started another.
        processes = list(psutil.process_iter())
        strays = [process for process in processes if _belongs(process, mark)]
        if not strays and not (passed < STARTING_SECONDS and any(map(_is_starting, processes))):
            break
        for process in strays:
            found.add(process.pid)
            _kill(process, mark)
        # Not psutil's wait_procs: it would take the exit status away from whoever started the process.
        time.sleep(0.01)
    return len(found)


def _belongs(process: psutil.Process, mark: tuple[str, str]) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        if process.environ().get(mark[0]) != mark[1] or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return all(process.pid != ancestor.pid for ancestor in psutil.Process().parents())
    except (psutil.Error, OSError):
        return False  # it has ended, or belongs to another user


def _is_starting(process: psutil.Process) -> bool:
    """Whether it is in the middle of `execve`, when the kernel shows neither arguments nor environment."""
    try:
        is_bare = process.cmdline() == [] and process.environ() == {}
        return is_bare and KERNEL_THREADS not in (process.pid, process.ppid())
    except (psutil.Error, OSError):
        return False


def _kill(process: psutil.Process, mark: tuple[str, str]) -> None:
    with suppress(psutil.Error, OSError):
        group = os.getpgid(process.pid)
        if group != os.getpgrp() and _made_by(group, process, mark):
            os.killpg(group, signal.SIGKILL)
    with suppress(psutil.Error):
        process.kill()


def _made_by(group: int, process: psutil.Process, mark: tuple[str, str]) -> bool:
    """Tell whether an action or a maid itself made a group: its leader is a stray too, or has ended."""
    if group == process.pid or not psutil.pid_exists(group):
        return True
    leader = psutil.Process(group)
    return leader.status() == psutil.STATUS_ZOMBIE or _belongs(leader, mark)
