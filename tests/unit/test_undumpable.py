"""The server's secrets can't be read out of its process by what runs as the same user (F2)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOK = """
import ctypes, os, sys
from butler.undumpable import PR_SET_DUMPABLE, close_to_others
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)  # root may look at everything
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
if sys.argv[1] == "closed":
    assert close_to_others()
if os.fork() == 0:
    for name in ("environ", "mem"):
        try:
            open(f"/proc/{os.getppid()}/{name}", "rb").close()
            print(name, "open")
        except OSError:
            print(name, "closed")
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this")
@pytest.mark.parametrize("state", ["open", "closed"])
def test_environment_and_memory_are_closed_to_the_same_user(state: str) -> None:
    command = [sys.executable, "-c", LOOK, state]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"environ {state}", f"mem {state}"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this")
def test_the_server_closes_itself_before_it_reads_a_secret() -> None:
    code = """if True:
        import server
        calls = []
        server.close_to_others = lambda: calls.append("closed")
        server.read_environment = lambda: calls.append("read") or exit(0)
        try:
            server.main()
        finally:
            print(*calls)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "closed read\n", done.stderr
