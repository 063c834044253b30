"""The optional sandbox: a maid under bubblewrap sees everything and can write only in its own folders (D11).

It has process and IPC name spaces of its own, and ends with its keeper. A Git worktree's index and objects lie in
the project's repository, outside of the tree: ``git diff`` works, ``git add`` and ``git commit`` don't. ``/tmp``
can't be written either; ``TMPDIR`` names the attempt's own folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from butler.maids.contract import Launch
from butler.maids.launching.processes import LaunchFailed

PROGRAM = "bwrap"
SANDBOX_LEVELS = 2
"""How many processes of bubblewrap stand above the maid's own."""
COMPLAINT = "bwrap: "
"""How bubblewrap begins what it says when it can't start."""


def sandboxed(
    argv: Sequence[str], launch: Launch, *, network: bool, hidden: Sequence[Path] = (), search: str | None = None
) -> tuple[str, ...]:
    """Wrap a command so that it runs in the sandbox.

    Args:
        network: without it there is only a loopback of its own.
        hidden: folders that look empty inside, such as the one with Butler's database, and files that can't be read.
        search: where bubblewrap is looked for, like ``PATH``; None for the server's own.

    Raises:
        LaunchFailed: bubblewrap is not installed.
    """
    try:
        return confined(
            argv, launch.tree, (launch.tree, launch.home, launch.temp), network=network, hidden=hidden,
            shown=(launch.prompt_file,), search=search,
        )  # fmt: skip
    except LaunchFailed as error:
        raise LaunchFailed(f"maid {launch.maid.maid_id} wants the sandbox and {error}") from None


def confined(
    argv: Sequence[str], place: Path, writable: Sequence[Path], *, network: bool, hidden: Sequence[Path] = (),
    shown: Sequence[Path] = (), search: str | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Wrap any command so that it can write in some folders only.

    Args:
        place: where it runs.
        shown: files inside of hidden folders that can be read nevertheless.

    Raises:
        LaunchFailed: bubblewrap is not installed.
    """
    program = shutil.which(PROGRAM, path=search)
    if program is None:
        raise LaunchFailed(f"the program {PROGRAM} was not found; install bubblewrap, or set `sandbox: none`")
    return (
        program,
        *("--die-with-parent", "--unshare-pid", "--unshare-ipc", *(() if network else ("--unshare-net",))),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(item for folder in hidden for item in _hiding(folder)),
        *(item for file in shown for item in ("--ro-bind", str(file), str(file))),
        *(item for folder in writable for item in ("--bind", str(folder), str(folder))),
        *("--chdir", str(place)),
        "--",
        *argv,
    )


def _hiding(place: Path) -> tuple[str, ...]:
    if place.is_dir():
        return "--tmpfs", str(place)
    return ("--ro-bind", os.devnull, str(place)) if place.is_file() else ()
