"""What a maid leaves by killing or stopping its keeper is ended by Butler, and counts against it (D7, D11)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from butler.maids.contract import Verification
from butler.maids.failures import classify
from butler.maids.launching.choose import launcher_for
from butler.maids.launching.headless import Settings
from butler.maids.observation import Observation
from tests.support.maid_processes import DAEMON, QUICK, Notes, python_maid, with_word, word
from tests.support.polling import wait_until

ROOT = Path(__file__).parents[2]

BUTLER = '''
"""A process like Butler's: ROOT OTHER CODE GRACE; runs a maid, and has children that are none of it."""
import asyncio, json, os, subprocess, sys
from pathlib import Path
from butler.maids.launching import orphans
from butler.maids.launching.processes import Graces, spawn
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]
FORKING = "import os, subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, start_new_session=True).pid)"
async def main():
    assert orphans.adopt_orphans()
    reaper = asyncio.ensure_future(orphans.reap_orphans(0.05))
    own = await asyncio.create_subprocess_exec(*SLEEP, start_new_session=True)
    tool = await asyncio.create_subprocess_exec(sys.executable, "-c", FORKING, *SLEEP, stdout=-1, env={})
    adopted = int(await tool.stdout.readline())
    assert await tool.wait() == 0
    process = await spawn([sys.executable, "-u", "-c", sys.argv[2]], attempt_id="att_" + sys.argv[1],
                          environment={"PATH": os.environ["PATH"]}, cwd=Path.cwd())
    if sys.argv[3] == "stop":
        await process.stdout.readline()
        await process.stop(Graces(stdin=0.05, terminate=0.05, kill=3.0))
    exit_code = await process.wait()
    process.close()
    def alive(pid):
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    print(json.dumps([process.tampered, exit_code, process.left_behind, alive(own.pid), alive(adopted)]), flush=True)
    os.kill(adopted, 9)
    while os.path.exists(f"/proc/{adopted}"):
        await asyncio.sleep(0.02)
    own.kill()
    status = await own.wait()
    left = [open(f"/proc/self/task/{name}/children").read().strip() for name in os.listdir("/proc/self/task")]
    print(json.dumps([status, "".join(left)]), flush=True)
    reaper.cancel()
asyncio.run(main())
'''


def butler(folder: Path, code: str, how: str = "wait") -> list[Any]:
    """Run a maid's code under a Butler of its own: what became of it, and of Butler's other children."""
    done = subprocess.run(
        [sys.executable, "-c", BUTLER, word(), code, how],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [item for line in done.stdout.splitlines() for item in json.loads(line)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_what_a_lost_keeper_leaves_is_ended_and_no_other_child_of_butler(tmp_path: Path) -> None:
    text = word()
    code = DAEMON.replace("WORD", text) + "daemon(SLEEP, {})\ndaemon(SLEEP, {})\nos.kill(os.getppid(), 9)"
    tampered, exit_code, left, own, adopted, status, children = butler(tmp_path, code)
    assert with_word(text) == []
    assert (tampered, exit_code) == ("It killed the process that watches over it.", None)
    assert left >= 2
    assert (own, adopted) == (True, True)
    assert (status, children) == (-9, "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_what_a_stopped_keeper_watched_over_is_ended_with_it(tmp_path: Path) -> None:
    text = word()
    code = DAEMON.replace("WORD", text) + (
        "import signal\nsignal.signal(15, signal.SIG_IGN)\ndaemon(SLEEP, {})\nos.kill(os.getppid(), signal.SIGSTOP)\n"
        "print('ready')\ntime.sleep(600)"
    )
    tampered, _, _, own, adopted, status, children = butler(tmp_path, code, "stop")
    assert with_word(text) == []
    assert tampered == "It stopped the process that watches over it."
    assert (own, adopted, status, children) == (True, True, -9, "")


HOP = """
import os, sys, time
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    if sys.argv[1:] == ['alone']:
        os.setsid()
"""
LEAVE_HOPPER = (
    "import os, subprocess, sys\nfor _ in range(4):\n    subprocess.Popen([sys.executable, '-I', '-S', '-c', {hop!r}, "
    "'WORD'{more}], env={{}}, start_new_session=True)\n{then}"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("more", ["", ", 'alone'"], ids=["in a group", "each in a group of its own"])
async def test_what_forks_and_ends_again_and_again_does_not_get_away(tmp_path: Path, more: str) -> None:
    text = word()
    code = LEAVE_HOPPER.format(hop=HOP.replace("argv[1:]", "argv[2:]"), more=more, then="").replace("WORD", text)
    launch = python_maid(tmp_path, code)
    began = time.monotonic()
    finished = await launcher_for(launch.maid, Settings(graces=QUICK)).run(launch, Notes())
    assert time.monotonic() - began < 30
    assert [with_word(text) for _ in range(20)] == [[]] * 20
    assert finished.left_behind >= 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_it_does_not_get_away_without_a_keeper_either(tmp_path: Path) -> None:
    text = word()
    hop = HOP.replace("argv[1:]", "argv[2:]")
    code = LEAVE_HOPPER.format(hop=hop, more="", then="os.kill(os.getppid(), 9)").replace("WORD", text)
    tampered, _, left, own, adopted, status, children = butler(tmp_path, code)
    assert [with_word(text) for _ in range(20)] == [[]] * 20
    assert tampered is not None and left >= 4
    assert (own, adopted, status, children) == (True, True, -9, "")


@pytest.mark.parametrize("kind", ["script", "cli"])
async def test_an_attempt_whose_keeper_was_killed_is_a_violation_whatever_its_checks_say(
    tmp_path: Path, kind: str
) -> None:
    code = "import os\nopen('out.txt', 'w').write('right')\nos.kill(os.getppid(), 9)"
    launch = python_maid(tmp_path, code, kind=kind)
    finished = await launcher_for(launch.maid, Settings(graces=QUICK)).run(launch, Notes())
    seen = Observation(finished, verification=Verification("passed", ()))
    failure = classify(seen)
    assert failure is not None
    assert failure.failure_class == "policy_violation"
    assert failure.detail == "It killed the process that watches over it."


async def test_a_stopped_keeper_goes_on_and_reports_before_it_would_be_killed(tmp_path: Path) -> None:
    text = word()
    code = DAEMON.replace("WORD", text) + (
        "import signal\ndaemon(SLEEP, {})\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)"
    )
    launch = python_maid(tmp_path, code, timeout=2.0)
    finished = await launcher_for(launch.maid, Settings(graces=QUICK)).run(launch, Notes())
    wait_until(lambda: not with_word(text), "all of the maid is gone")
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "policy_violation"
    assert finished.left_behind == 1
