"""Command checks: an allowlist compared item by item, no shell, a whole process tree that ends (D8, D11)."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import uuid
from pathlib import Path

import psutil
import pytest

from butler.maids.contract import CheckResult
from butler.maids.verify.findings import LIMIT
from butler.maids.verify.run import verify
from config.maid_types import CommandCheck, ExactOutput, MaidRegistryFile, VerificationProfile
from tests.support.polling import wait_until

ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}
DEAF = "import signal, time; signal.signal(15, 1); "
RUN_AWAY = textwrap.dedent("""
    import os, sys, time
    for _ in range(2):
        if os.fork():
            os._exit(0) if _ else os.wait()
            break
        os.setsid()
    else:
        os.execve(sys.executable, [sys.executable, '-c', 'import time; time.sleep(300)', sys.argv[1]], {})
    if len(sys.argv) > 2:
        time.sleep(300)
""")


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *args)


async def run(
    tree: Path,
    command: tuple[str, ...],
    *,
    allowed: tuple[tuple[str, ...], ...] | None = None,
    seconds: float = 20.0,
    expect: str | None = None,
    environment: dict[str, str] | None = None,
) -> CheckResult:
    if expect is None:
        profile = VerificationProfile(test_commands=(CommandCheck(command, seconds),))
    else:
        profile = VerificationProfile(exact_output=(ExactOutput(expect, command=command, timeout=seconds),))
    registry = MaidRegistryFile(allowed_commands=(command,) if allowed is None else allowed)
    verification = await verify(profile, tree, registry, environment or ENVIRONMENT, f"verify:{uuid.uuid4()}")
    (result,) = verification.checks
    assert verification.outcome == result.outcome
    return result


def running(word: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if word in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


async def test_a_command_passes_by_its_exit_status_and_its_output_is_evidence(tmp_path: Path) -> None:
    passed = await run(tmp_path, python("import os; print('3 passed', os.getcwd())"))
    assert passed.outcome == "passed" and f"3 passed {tmp_path}" in passed.actual
    failed = await run(tmp_path, python("import sys; print('1 failed'); sys.exit('boom')"))
    assert failed.outcome == "failed"
    assert "Exit status 1." in failed.actual and "1 failed" in failed.actual and "boom" in failed.actual
    killed = await run(tmp_path, python("import os; os.kill(os.getpid(), 9)"))
    assert "SIGKILL" in killed.actual


@pytest.mark.parametrize(
    "command", [("true", "x"), ("true", ""), (), ("true;", "rm"), ("sh", "-c", "true"), ("TRUE",), ("./true",)]
)
async def test_what_does_not_equal_an_entry_item_by_item_is_an_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = await run(tmp_path, command, allowed=(("true",), ("true", "x", "y"), ("true x",)))
    assert result.outcome == "error" and "allowed_commands" in result.actual


async def test_there_is_no_shell_and_nothing_is_expanded(tmp_path: Path) -> None:
    said = "$HOME {project_root} `id` ; *"
    result = await run(tmp_path, python("import sys; print(sys.argv[1])", said), expect=said + "\n")
    assert result.outcome == "passed"


async def test_a_missing_program_is_an_error_but_a_missing_script_of_the_tree_is_the_works_fault(
    tmp_path: Path,
) -> None:
    assert (await run(tmp_path, ("no-such-program-here",))).outcome == "error"
    assert (await run(tmp_path, ("/no/such/program",))).outcome == "error"
    assert (await run(tmp_path, ("./check.sh",))).outcome == "failed"
    (tmp_path / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    result = await run(tmp_path, ("./check.sh",))
    assert result.outcome == "failed" and "can't be started" in result.actual
    (tmp_path / "check.sh").chmod(0o755)
    assert (await run(tmp_path, ("./check.sh",))).outcome == "passed"


async def test_the_environment_is_what_was_given_and_the_mark(tmp_path: Path) -> None:
    code = "import os; print(sorted(os.environ.items()))"
    result = await run(tmp_path, python(code), environment={**ENVIRONMENT, "A": "1"})
    assert "('A', '1')" in result.actual and "('MAID_RUN', 'verify:" in result.actual and "HOME" not in result.actual


async def test_a_timeout_ends_the_deaf_and_those_in_sessions_of_their_own(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    result = await run(tmp_path, python(RUN_AWAY, word, "stay"), seconds=0.6)
    assert result.outcome == "failed" and "longer than 0.6 s" in result.actual
    assert running(word) == []
    assert (await run(tmp_path, python(DEAF + "time.sleep(300)"), seconds=0.3)).outcome == "failed"


async def test_what_a_command_leaves_behind_is_ended_and_does_not_hold_up_the_check(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    result = await run(tmp_path, python(RUN_AWAY, word))
    assert result.outcome == "passed" and result.duration < 10
    assert running(word) == []


async def test_cancelling_ends_the_command_first(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    flag = tmp_path / "started"
    code = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(300)"
    task = asyncio.ensure_future(run(tmp_path, python(code, str(flag), word)))
    await asyncio.to_thread(wait_until, flag.exists, "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(word) == []


async def test_a_flood_is_ended_and_takes_no_memory(tmp_path: Path) -> None:
    result = await run(tmp_path, python("import os\nwhile True: os.write(1, b'x' * 65536)"))
    assert result.outcome == "failed" and "printed more than" in result.actual and len(result.actual) <= LIMIT


async def test_exact_output_of_a_command_is_its_standard_output_alone(tmp_path: Path) -> None:
    code = "import sys; print('warning', file=sys.stderr); print('42')"
    assert (await run(tmp_path, python(code), expect="42\n")).outcome == "passed"
    result = await run(tmp_path, python(code), expect="43\n")
    assert result.outcome == "failed" and "expected '3\\n', found '2\\n'" in result.actual
    assert "warning" in result.actual
    assert (await run(tmp_path, python("print(42); raise SystemExit(3)"), expect="42\n")).outcome == "failed"
