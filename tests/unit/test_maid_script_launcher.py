"""Scripts as maids: every end is told, and no process is left behind, however it comes (D4, D11)."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import psutil
import pytest

from butler.maids.contract import Finished, Launch, MaidEvent, Output, Started, Stop
from butler.maids.launching.choose import launcher_for
from butler.maids.launching.headless import Settings
from butler.maids.launching.templates import fill_command
from config.maid_types import Limits
from tests.support.maid_processes import DAEMON, QUICK, Notes, launch_of, python_maid, with_mark, with_word, word
from tests.support.polling import wait_until

SETTINGS = Settings(graces=QUICK)


async def run(launch: Launch, watcher: Notes | None = None) -> Finished:
    finished = await launcher_for(launch.maid, SETTINGS).run(launch, watcher or Notes())
    assert with_mark(launch.attempt_id) == []
    return finished


async def test_a_script_works_in_the_tree_and_everything_is_told(tmp_path: Path) -> None:
    code = "import sys; open('out.txt', 'w').write(sys.argv[1]); print('one\\ntwo'); print('odd', file=sys.stderr)"
    launch = python_maid(tmp_path, code, "{project_root}")
    notes = Notes()
    finished = await run(launch, notes)
    assert (tmp_path / "tree" / "out.txt").read_text("utf-8") == str(tmp_path / "tree")
    assert isinstance(notes.events[0], Started)
    assert (notes.texts("stdout"), notes.texts("stderr")) == (["one\n", "two\n"], ["odd\n"])
    assert (finished.exit_code, finished.stopped, finished.claim) == (0, None, "one\ntwo")
    assert (finished.stdout_tail, finished.stderr_tail, finished.output_bytes) == ("one\ntwo\n", "odd\n", 12)
    assert finished.left_behind == 0
    assert finished.duration > 0


async def test_an_exit_code_of_1_with_the_work_done_decides_nothing(tmp_path: Path) -> None:
    finished = await run(python_maid(tmp_path, "open('out.txt', 'w').close(); raise SystemExit(1)"))
    assert (finished.exit_code, finished.stopped) == (1, None)
    assert (tmp_path / "tree" / "out.txt").exists()


async def test_a_script_reads_nothing_from_its_input(tmp_path: Path) -> None:
    finished = await run(python_maid(tmp_path, "print(repr(input('Shall I proceed? ')))"))
    assert finished.exit_code == 1
    assert finished.claim == "Shall I proceed?"
    assert "EOFError" in finished.stderr_tail


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-file"])
async def test_a_missing_program_is_a_launch_error_that_says_what_to_do(tmp_path: Path, program: str) -> None:
    launch = launch_of(tmp_path, program, source="maids.yml:3")
    notes = Notes()
    finished = await run(launch, notes)
    assert finished.exit_code is None
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "launch_error"
    assert f"{program!r} was not found; install it, or set the right path" in finished.stopped.detail
    assert "maids.yml:3" in finished.stopped.detail
    assert notes.events == []


FLOODS = {
    "a flood of text": "while True: sys.stdout.write('x' * 65536)",
    "a flood of empty lines": "while True: sys.stdout.write('\\n' * 65536)",
    "a flood of errors": "while True: sys.stderr.write('x\\n' * 65536)",
}


@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_the_attempt_at_once_in_bounded_memory(tmp_path: Path, code: str) -> None:
    notes = Notes()
    before = psutil.Process().memory_info().rss
    started = time.monotonic()
    finished = await run(python_maid(tmp_path, f"import sys\n{code}", limits=Limits(output_bytes=2_000_000)), notes)
    assert finished.stopped == Stop("policy_violation", "printed more than 2000000 bytes")
    assert 2_000_000 < finished.output_bytes < 2_000_000 + 1_000_000
    assert len(finished.stdout_tail) + len(finished.stderr_tail) < 20_000
    assert len(notes.events) < 10_000
    assert time.monotonic() - started < 30
    assert psutil.Process().memory_info().rss - before < 60_000_000


HANG = """
daemon(SLEEP, dict(os.environ))
daemon(SLEEP, {})
children = [subprocess.Popen(SLEEP), subprocess.Popen(SLEEP, start_new_session=True)]
print('started')
time.sleep(600)
"""


def hanging(folder: Path, text: str, timeout: float = 20.0, silence: float = 20.0) -> Launch:
    code = DAEMON.replace("WORD", text) + HANG
    return python_maid(folder, code, timeout=timeout, limits=Limits(silence=silence))


async def test_the_wall_clock_ends_a_maid_with_all_its_grandchildren(tmp_path: Path) -> None:
    text = word()
    finished = await run(hanging(tmp_path, text, timeout=2.0))
    assert finished.stopped == Stop("timeout", "it took longer than 2 s")
    assert (finished.claim, with_word(text)) == ("started", [])
    assert finished.exit_code == -15


async def test_silence_while_a_command_runs_is_a_foreground_hang(tmp_path: Path) -> None:
    text = word()
    finished = await run(hanging(tmp_path, text, silence=2.0))
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "hung_foreground"
    assert text in finished.stopped.detail
    assert with_word(text) == []


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'while True: pass'])",
        # As a build does: each program is over soon, so that no living one has used much.
        "import subprocess; subprocess.run(['sh', '-c', 'while :; do ls -R /usr/bin; done'], stdout=-3, stderr=-3)",
        # It has lost its parent.
        "import subprocess; subprocess.run(['sh', '-c', 'setsid sh -c \"while :; do :; done\" &'], stdout=-1)",
    ],
    ids=["one program", "one after the other", "an orphan"],
)
async def test_silence_while_a_command_computes_is_only_a_timeout(tmp_path: Path, code: str) -> None:
    finished = await run(python_maid(tmp_path, code, limits=Limits(silence=1.0)))
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "timeout" and "was computing" in finished.stopped.detail


async def test_waiting_for_a_grandchild_that_lost_its_parent_and_holds_a_pipe_is_a_foreground_hang(
    tmp_path: Path,
) -> None:
    code = "import subprocess; subprocess.run(['sh', '-c', 'setsid sleep 600 &'], stdout=subprocess.PIPE)"
    finished = await run(python_maid(tmp_path, code, limits=Limits(silence=0.5)))
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "hung_foreground" and "sleep 600" in finished.stopped.detail


async def test_silence_without_a_command_is_a_timeout(tmp_path: Path) -> None:
    finished = await run(python_maid(tmp_path, "import time; time.sleep(600)", limits=Limits(silence=0.3)))
    assert finished.stopped == Stop("timeout", "nothing came for 0.3 s")


async def test_a_maid_that_goes_on_talking_is_not_silent(tmp_path: Path) -> None:
    code = "import time\nfor n in range(15): print(n); time.sleep(0.1)"
    finished = await run(python_maid(tmp_path, code, limits=Limits(silence=1.0)))
    assert (finished.exit_code, finished.stopped) == (0, None)


async def test_the_watcher_stops_a_maid_and_the_first_reason_counts(tmp_path: Path) -> None:
    stops = iter([Stop("loop_detected", "the same line again"), Stop("unknown", "later")])

    def stop(event: MaidEvent) -> Stop | None:
        return next(stops, None) if isinstance(event, Output) else None

    code = "import time\nprint('again\\nagain')\ntime.sleep(600)"
    finished = await run(python_maid(tmp_path, code), Notes(stop))
    assert finished.stopped == Stop("loop_detected", "the same line again")


async def test_a_watcher_that_fails_leaves_no_process(tmp_path: Path) -> None:
    def fail(event: MaidEvent) -> Stop | None:
        if isinstance(event, Output):
            raise RuntimeError("broken watcher")
        return None

    text = word()
    launch = hanging(tmp_path, text)
    with pytest.raises(RuntimeError, match="broken watcher"):
        await launcher_for(launch.maid, SETTINGS).run(launch, Notes(fail))
    assert (with_word(text), with_mark(launch.attempt_id)) == ([], [])


async def test_cancelling_kills_everything_before_it_is_raised_on(tmp_path: Path) -> None:
    text, spoken = word(), asyncio.Event()

    def note(event: MaidEvent) -> None:
        if isinstance(event, Output):
            spoken.set()

    launch = hanging(tmp_path, text)
    running = asyncio.create_task(launcher_for(launch.maid, SETTINGS).run(launch, Notes(note)))
    await spoken.wait()
    wait_until(lambda: len(with_word(text)) == 4, "all four processes are seen")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()  # impatience changes nothing
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (with_word(text), with_mark(launch.attempt_id)) == ([], [])


async def test_cancelling_in_the_middle_of_the_start_leaves_no_process(tmp_path: Path) -> None:
    for turns in range(8):
        launch = python_maid(tmp_path, "import time; time.sleep(600)")
        running = asyncio.create_task(launcher_for(launch.maid, SETTINGS).run(launch, Notes()))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert with_mark(launch.attempt_id) == []


async def test_what_still_runs_after_the_end_is_counted(tmp_path: Path) -> None:
    text = word()
    finished = await run(python_maid(tmp_path, DAEMON.replace("WORD", text) + "daemon(SLEEP, {})"))
    assert (finished.exit_code, finished.left_behind, with_word(text)) == (0, 1, [])


def test_a_command_is_filled_item_by_item(tmp_path: Path) -> None:
    launch = launch_of(
        tmp_path,
        *("prog", "{instruction}", "--in={project_root}/{intent}", "{model}", "{prompt_file}", "{{}}"),
        instruction="two words; $(x)",
    )
    assert fill_command(launch) == (
        "prog",
        "two words; $(x)",
        f"--in={tmp_path / 'tree'}/implement",
        "",
        str(tmp_path / "prompt.txt"),
        "{}",
    )


async def test_an_argument_that_is_too_long_is_a_launch_error(tmp_path: Path) -> None:
    launch = launch_of(tmp_path, sys.executable, "-c", "pass", "{instruction}", instruction="x" * 200_000)
    finished = await run(launch)
    assert finished.stopped is not None
    assert finished.stopped.failure_class == "launch_error"
    assert "Argument list too long" in finished.stopped.detail


class Interrupts(Notes):
    """A watcher that ends the attempt when it has heard a word, and not as an answer to it."""

    async def interrupted(self) -> Stop:
        while not self.texts("stdout"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return Stop("policy_violation", "used up")


@pytest.mark.parametrize("kind", ["script", "cli"])
async def test_a_watcher_may_end_a_silent_maid_between_two_events(tmp_path: Path, kind: str) -> None:
    launch = python_maid(tmp_path, "import time\nprint('hello')\ntime.sleep(600)", kind=kind)
    finished = await launcher_for(launch.maid, Settings(graces=QUICK)).run(launch, Interrupts())
    assert finished.stopped == Stop("policy_violation", "used up")
    assert finished.stdout_tail == "hello\n"
    assert with_mark(launch.attempt_id) == []
