"""The optional sandbox: what bubblewrap is told, and what a maid can't do inside (D11)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from butler.maids.contract import Finished, Launch
from butler.maids.desk import Desk
from butler.maids.launching.choose import launcher_for
from butler.maids.launching.headless import Settings
from butler.maids.launching.processes import LaunchFailed
from butler.maids.launching.sandbox import sandboxed
from config.maid_types import Limits, MaidRegistryFile
from service.delegation import supervisor_of
from tests.support.maid_processes import DAEMON, QUICK, Notes, launch_of, python_maid, with_mark, with_word, word


@pytest.fixture
def bubblewrap() -> None:
    """The real one: without it the test fails; only where the system forbids sandboxes it is skipped."""
    if shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is not installed; on Debian: apt-get install bubblewrap", pytrace=False)
    command = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this system makes no sandboxes: {tried.stderr.strip()}")


needs_bubblewrap = pytest.mark.usefixtures("bubblewrap")


def fake(folder: Path, *lines: str) -> str:
    """A folder with a program of bubblewrap's name; give the folder."""
    place = folder / "bin"
    place.mkdir()
    program = place / "bwrap"
    program.write_text("\n".join((f"#!{sys.executable}", *lines)), "utf-8")
    program.chmod(0o755)
    return str(place)


async def run(launch: Launch, **settings: Any) -> Finished:
    finished = await launcher_for(launch.maid, Settings(graces=QUICK, **settings)).run(launch, Notes())
    assert with_mark(launch.attempt_id) == []
    return finished


async def test_a_maid_that_wants_the_sandbox_is_not_started_without_it(tmp_path: Path) -> None:
    launch = python_maid(tmp_path, "open('out.txt', 'w')", sandbox="bubblewrap")
    finished = await run(launch, search=str(tmp_path))
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "launch_error"
    assert "install bubblewrap, or set `sandbox: none`" in finished.stopped.detail
    assert not (tmp_path / "tree" / "out.txt").exists()


async def test_a_sandbox_that_can_not_be_made_is_a_launch_error(tmp_path: Path) -> None:
    search = fake(tmp_path, "raise SystemExit('bwrap: No permissions to create new namespace')")
    finished = await run(python_maid(tmp_path, "pass", sandbox="bubblewrap"), search=search)
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "launch_error"
    assert "No permissions to create new namespace" in finished.stopped.detail


def test_everything_is_read_only_but_the_attempts_own_folders(tmp_path: Path) -> None:
    search = fake(tmp_path)
    launch = launch_of(tmp_path, "prog", sandbox="bubblewrap")
    argv = sandboxed(("prog", "--x"), launch, network=False, hidden=(tmp_path, tmp_path / "gone"), search=search)
    text = " ".join(argv)
    assert argv[0] == f"{search}/bwrap"
    assert argv[-3:] == ("--", "prog", "--x")
    assert "--die-with-parent --unshare-pid --unshare-ipc --unshare-net --ro-bind / /" in text
    assert f"--tmpfs {tmp_path} " in text
    assert "gone" not in text
    for name in ("tree", "home", "temp"):
        assert f"--bind {tmp_path / name} {tmp_path / name}" in text
    assert "--unshare-net" not in sandboxed(("prog",), launch, network=True, search=search)
    with pytest.raises(LaunchFailed, match="was not found"):
        sandboxed(("prog",), launch, network=True, search=str(tmp_path / "home"))


PRY = """
import os, pathlib, socket
folder = pathlib.Path.cwd().parent
def attempt(what):
    try:
        what()
        return 'yes'
    except OSError as error:
        return type(error).__name__
listener = socket.create_server(('127.0.0.1', 0))
for name in ('tree', 'home', 'temp'):
    print(name, attempt(lambda: (folder / name / 'new').write_text('x')))
print('outside', attempt(lambda: (folder / 'new').write_text('x')))
print('secret', attempt(lambda: (folder / 'hidden' / 'secret').read_text()))
print('prompt', (folder / 'prompt.txt').exists())
print('processes', len([name for name in os.listdir('/proc') if name.isdigit()]))
print('network', sorted(name for _, name in socket.if_nameindex()))
print('loopback', attempt(lambda: socket.create_connection(listener.getsockname()).close()))
"""


@needs_bubblewrap
async def test_inside_only_the_own_folders_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "secret").write_text("geheim", "utf-8")
    finished = await run(python_maid(tmp_path, PRY, sandbox="bubblewrap"), hidden=(tmp_path / "hidden",))
    assert finished.stdout_tail.splitlines() == [
        "tree yes",
        "home yes",
        "temp yes",
        "outside OSError",
        "secret FileNotFoundError",
        "prompt True",
        "processes 2",
        "network ['lo']",
        "loopback yes",
    ]
    assert (finished.exit_code, finished.stopped, finished.left_behind) == (0, None, 0)
    assert not (tmp_path / "new").exists()


READ = """
import pathlib, sys
for name in sys.argv[1:]:
    try:
        print(pathlib.Path(name).name, repr(pathlib.Path(name).read_text()))
    except OSError as error:
        print(pathlib.Path(name).name, type(error).__name__)
"""


@needs_bubblewrap
async def test_a_sandboxed_maid_can_not_read_the_houses_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("data/owner.token", "config/notify.yml", "config/format.py", ".env", "elsewhere.db")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("geheim", "utf-8")
    monkeypatch.chdir(tmp_path)
    nothing = cast(Any, None)
    house = supervisor_of(
        Desk(MaidRegistryFile(most_at_once=2), (), tmp_path / "config"), database=nothing, judge=nothing, tools=nothing,
        redactor=nothing, data_dir=tmp_path / "data", environ={}, hidden=[tmp_path / "elsewhere.db"],
    )  # fmt: skip
    assert house.means.at_once == 2
    launch = python_maid(tmp_path, READ, *(str(tmp_path / name) for name in names), sandbox="bubblewrap")
    finished = await house.means.launcher_for(launch.maid).run(launch, Notes())
    assert finished.stdout_tail.splitlines() == [
        "owner.token FileNotFoundError",
        "notify.yml PermissionError",
        "format.py 'geheim'",
        ".env PermissionError",
        "elsewhere.db PermissionError",
    ]


@needs_bubblewrap
async def test_a_sandboxed_maid_ends_with_all_that_it_started(tmp_path: Path) -> None:
    text = word()
    code = DAEMON.replace("WORD", text) + "daemon(SLEEP, {})\nprint('ready')\nsubprocess.run(SLEEP)"
    finished = await run(python_maid(tmp_path, code, sandbox="bubblewrap", limits=Limits(silence=1.0)))
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "hung_foreground"
    assert (finished.claim, with_word(text)) == ("ready", [])


@needs_bubblewrap
async def test_a_missing_program_is_told_the_same_way_in_the_sandbox(tmp_path: Path) -> None:
    finished = await run(launch_of(tmp_path, "no-such-program", sandbox="bubblewrap"))
    assert finished.stopped is not None
    assert "'no-such-program' was not found" in finished.stopped.detail
    assert not [one for one in psutil.Process().children() if one.name() == "bwrap"]
