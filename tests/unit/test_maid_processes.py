"""A maid's processes: started without a shell, ended with everything that came from them (D11)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from butler.maids.launching.processes import AT_ONCE, LaunchFailed, MaidProcess, spawn, sweep, through
from tests.support.maid_processes import DAEMON, QUICK, with_mark, with_word, word
from tests.support.polling import wait_until

ENVIRONMENT = {"PATH": os.environ["PATH"], "LISTED": "yes"}
ROOT = Path(__file__).parents[2]


Start = Callable[..., Awaitable[MaidProcess]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a maid's code; what a test leaves running, also when it fails, ends with it."""
    started: list[MaidProcess] = []

    async def begin(code: str, attempt_id: str = "", **changes: Any) -> MaidProcess:
        process = await spawn(
            [sys.executable, "-u", "-c", code],
            attempt_id=attempt_id or f"att_{uuid.uuid4().hex}",
            environment=ENVIRONMENT,
            cwd=tmp_path,
            **changes,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        await process.stop(AT_ONCE)
        process.close()


async def test_a_process_gets_exactly_its_environment_and_the_mark(start: Start) -> None:
    process = await start("import os; print(sorted(os.environ), os.environ['MAID_RUN'])", "att_1")
    out = await process.stdout.read()
    assert await process.wait() == 0
    assert out.decode().strip() in (
        "['LC_CTYPE', 'LISTED', 'MAID_RUN', 'PATH'] att_1",  # Python itself sets LC_CTYPE
        "['LISTED', 'MAID_RUN', 'PATH'] att_1",
    )


async def test_a_process_leads_a_session_of_its_own_and_works_in_its_folder(start: Start, tmp_path: Path) -> None:
    process = await start("import os; print(os.getsid(0) == os.getpid(), os.getcwd(), os.getpid())")
    assert (await process.stdout.read()).decode().split() == ["True", str(tmp_path), str(process.pid)]
    assert await process.wait() == 0


@pytest.mark.parametrize(
    ("code", "status"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("", 0)]
)
async def test_the_exit_code_is_the_programs_own(start: Start, code: str, status: int) -> None:
    process = await start(code)
    assert await process.wait() == status


async def test_text_goes_in_and_comes_out_by_pipes(start: Start) -> None:
    process = await start("import sys; print(sys.stdin.read().upper())", stdin="pipe")
    assert process.stdin is not None
    process.stdin.write(b"hello")
    process.stdin.close()
    assert await process.stdout.read() == b"HELLO\n"
    assert await process.wait() == 0


async def test_a_file_can_be_the_input(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from a file", "utf-8")
    process = await start("import sys; print(sys.stdin.read())", stdin=tmp_path / "in.txt")
    assert await process.stdout.read() == b"from a file\n"
    await process.wait()


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["no-such-program-here"], "No such file or directory"),
        (["/"], "Permission denied"),
        (["true", "x\0y"], "NUL"),
        (["true", "x" * 200_000], "Argument list too long"),
    ],
)
async def test_a_program_that_cannot_start_says_why(tmp_path: Path, argv: list[str], reason: str) -> None:
    with pytest.raises(LaunchFailed, match=reason):
        await spawn(argv, attempt_id="att_none", environment=ENVIRONMENT, cwd=tmp_path)
    assert with_mark("att_none") == []


async def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="No such file"):
        await spawn(["true"], attempt_id="att_none", environment=ENVIRONMENT, cwd=tmp_path / "gone")


@pytest.mark.parametrize("env", ["dict(os.environ)", "{}"], ids=["marked", "with an emptied environment"])
async def test_what_a_maid_leaves_behind_ends_with_it(start: Start, env: str) -> None:
    text = word()
    process = await start(DAEMON.replace("WORD", text) + f"daemon(SLEEP, {env})")
    assert await process.wait() == 0
    assert (with_word(text), process.left_behind) == ([], 1)


async def test_the_ladder_begins_with_the_end_of_the_input(start: Start) -> None:
    process = await start("import sys; sys.stdin.read(); raise SystemExit(5)", stdin="pipe")
    assert await process.stop(QUICK) == 5


async def test_the_ladder_asks_before_it_kills(start: Start) -> None:
    code = "import signal, time\nsignal.signal(15, lambda *a: exit(6))\nprint('ready')\ntime.sleep(600)"
    process = await start(code)
    await process.stdout.readline()
    assert await process.stop(QUICK) == 6


async def test_the_ladder_kills_whatever_does_not_listen(start: Start) -> None:
    text = word()
    deaf = "import signal, sys\nsignal.signal(15, signal.SIG_IGN)\n"
    code = DAEMON.replace("WORD", text) + textwrap.dedent(f"""
        {deaf!r}
        import signal
        signal.signal(15, signal.SIG_IGN)
        daemon(SLEEP, {{}})
        daemon(SLEEP, dict(os.environ))
        children = [subprocess.Popen(SLEEP), subprocess.Popen(SLEEP, start_new_session=True)]
        print('ready')
        time.sleep(600)
    """)
    process = await start(code, stdin="pipe")
    await process.stdout.readline()
    # Both ends of a start are told before the kernel shows the new program's arguments.
    wait_until(lambda: len(with_word(text)) == 4, "all four processes are seen")
    assert await process.stop(QUICK) == -9
    assert with_word(text) == []
    assert not psutil.pid_exists(process.pid)


async def test_a_maid_that_kills_its_keeper_is_still_found(start: Start) -> None:
    attempt_id = f"att_{uuid.uuid4().hex}"
    process = await start("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)", attempt_id)
    assert await process.wait() is None
    assert with_mark(attempt_id) == []


async def test_a_stopped_maid_that_stops_its_keeper_ends_all_the_same(start: Start) -> None:
    code = (
        "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nprint('ready')\nos.kill(os.getpid(), signal.SIGSTOP)"
    )
    attempt_id = f"att_{uuid.uuid4().hex}"
    process = await start(code, attempt_id)
    await process.stdout.readline()
    await process.stop(QUICK.__class__(stdin=0.1, terminate=0.1, kill=0.2))
    assert with_mark(attempt_id) == []


async def test_cancelling_waits_for_work_that_must_be_done() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        begun.set()
        await go.wait()
        done.append(True)

    task = asyncio.create_task(through(work()))
    await begun.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


SERVER = """
import asyncio, os, sys
from pathlib import Path
from butler.maids.launching.processes import spawn
async def main():
    process = await spawn([sys.executable, '-c', sys.argv[1]], attempt_id=sys.argv[2],
                          environment={'PATH': os.environ['PATH']}, cwd=Path.cwd())
    sys.stdout.buffer.write(await process.stdout.readline())
    sys.stdout.flush()
    await process.wait()
asyncio.run(main())
"""


def test_a_killed_server_takes_its_maid_with_it(tmp_path: Path) -> None:
    text, attempt_id = word(), f"att_{uuid.uuid4().hex}"
    maid = DAEMON.replace("WORD", text) + "daemon(SLEEP, {})\nprint('ready', flush=True)\nsubprocess.run(SLEEP)"
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, maid, attempt_id],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == b"ready\n"
        wait_until(lambda: len(with_word(text)) == 2, "both processes of the maid run")
        server.kill()
        server.wait()
    wait_until(lambda: not with_word(text) and not with_mark(attempt_id), "all of the maid is gone")
    assert sweep(attempt_id) == 0


def test_the_sweep_alone_ends_what_a_lost_server_left(tmp_path: Path) -> None:
    attempt_id = f"att_{uuid.uuid4().hex}"
    environment = {**ENVIRONMENT, "MAID_RUN": attempt_id}
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    left = [subprocess.Popen(sleep, env=environment, start_new_session=own) for own in (True, False)]
    other = subprocess.Popen(sleep, env={**environment, "MAID_RUN": "att_other"})
    try:
        assert sweep(attempt_id) == 2
        assert [process.wait(60) for process in left] == [-signal.SIGKILL] * 2
        assert other.poll() is None
        started = time.monotonic()
        assert sweep(attempt_id) == 0
        assert time.monotonic() - started < 30
    finally:
        for process in (*left, other):
            process.kill()
            process.wait()
