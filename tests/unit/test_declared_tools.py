"""Declared commands run without a shell, in their limits, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from butler.tools.declared import declared_toolset
from butler.tools.output import LIMIT, TAIL, Output
from butler.tools.strays import kill_strays
from butler.types import Invocation, ToolResult, ToolSpec
from config.tools_file import load_tools_file

ENVIRON = {"PATH": os.environ["PATH"], "SECRET_OF_SERVER": "geheim", "LISTED": "yes"}
ANY_TYPE = {"type": "object", "properties": {"text": True, "other": True}}


def declare(folder: Path, environ: dict[str, str] | None = None, **changes: Any) -> ToolSpec:
    """A tool as tools.yml would declare it."""
    entry = {"name": "tool", "description": "d", "input_schema": ANY_TYPE, **changes}
    path = folder / "tools.yml"
    path.write_text(yaml.safe_dump({"tools": [entry]}), "utf-8")
    variables = ENVIRON if environ is None else environ
    (spec,) = declared_toolset(load_tools_file(path, variables), variables).specs
    return spec


def python(folder: Path, code: str, *items: str, **changes: Any) -> ToolSpec:
    """A tool that runs a Python program."""
    (folder / "tool.py").write_text(code, "utf-8")
    return declare(folder, command=[sys.executable, "tool.py", *items], **changes)


async def call(spec: ToolSpec, action_id: str = "act-1", **args: Any) -> ToolResult:
    return await spec.run(Invocation(action_id, spec.name, args, "thread", "run", "ada"))


async def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def with_action(action_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BUTLER_ACTION_ID") == action_id and process.status() != "zombie":
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


ENVIRONMENT = """
import os
print(sorted(set(os.environ) - {'LC_CTYPE'}), os.environ['BUTLER_ACTION_ID'], os.getcwd())
"""
BOTH_OUTPUTS = """
import sys
for n in range(3):
    print('out', n, flush=True)
    print('err', n, file=sys.stderr, flush=True)
print([sys.stdin.read()])
"""
FLOOD = """
import os
os.write(1, b'first ')
for _ in range(1600):
    os.write(1, b'x' * 65536)
os.write(1, b' last')
"""
LEFT_OPEN = """
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
print('done')
"""
ARGV = "import json, sys\nprint(json.dumps(sys.argv[1:]))"


async def test_arguments_arrive_as_text_each_in_its_item(tmp_path: Path) -> None:
    spec = python(tmp_path, ARGV, "{text}", "a={text}&b={other}", "{{x}}", "plain")
    text = "; rm -rf / $(id) `id` \"quoted\" 'x' * \n ü {other}"
    result = await call(spec, text=text)
    assert not result.is_error
    assert yaml.safe_load(result.text) == [text, f"a={text}&b=", "{x}", "plain"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (5, "5"),
        (1.5, "1.5"),
        ({"b": 1, "a": ["ü"]}, '{"a":["ü"],"b":1}'),
        ([], "[]"),
        ("-rf", "-rf"),
    ],
)
async def test_values_that_are_no_text_are_written_as_json(value: object, text: str, tmp_path: Path) -> None:
    result = await call(python(tmp_path, ARGV, "{text}"), text=value)
    assert yaml.safe_load(result.text) == [text]


@pytest.mark.parametrize("value", ["a\0b", "\ud800", float("nan")])
async def test_what_no_program_can_take_is_an_error_result(value: object, tmp_path: Path) -> None:
    result = await call(python(tmp_path, ARGV, "{text}"), text=value)
    assert result.is_error
    assert result.text.startswith("The command was not started: ")


async def test_only_named_variables_and_the_action_id_reach_the_program(tmp_path: Path) -> None:
    spec = python(tmp_path, ENVIRONMENT, env=["LISTED", "NOT_SET"])
    result = await call(spec, "act-7")
    assert result.text == f"['BUTLER_ACTION_ID', 'LISTED'] act-7 {tmp_path}\n"


async def test_the_program_is_found_without_passing_the_path_on(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    result = await call(declare(tmp_path, command=["pwd"], cwd="sub"))
    assert (result.text, result.is_error) == (f"{tmp_path / 'sub'}\n", False)


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (["no-such-program-anywhere"], "there is no program 'no-such-program-anywhere'"),
        (["./absent"], "No such file or directory ('./absent')"),
        (["./tools.yml"], "Permission denied ('./tools.yml')"),
    ],
)
async def test_a_program_that_can_not_start_is_an_error_result(command: list[str], part: str, tmp_path: Path) -> None:
    result = await call(declare(tmp_path, command=command))
    assert result.is_error
    assert part in result.text


async def test_standard_input_is_empty_and_both_outputs_come_in_order(tmp_path: Path) -> None:
    result = await call(python(tmp_path, BOTH_OUTPUTS))
    assert result.text == "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n['']\n"


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    result = await call(python(tmp_path, "import os\nos.write(1, b'a\\xffb')"))
    assert result.text == "a\ufffdb"


async def test_a_failure_carries_status_and_the_end_of_the_output(tmp_path: Path) -> None:
    spec = python(tmp_path, "import sys\nprint('x' * 100_000)\nprint('the cause')\nsys.exit(3)")
    result = await call(spec)
    assert result.is_error
    assert result.text.startswith("The command failed with exit status 3.\n[output cut: only the last 8192 of")
    assert result.text.endswith("xx\nthe cause\n")
    assert len(result.text) < TAIL + 200
    silent = await call(python(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"))
    assert silent == ToolResult("The command failed with signal SIGTERM. It printed nothing.", is_error=True)


async def test_a_flood_is_cut_says_so_and_takes_no_memory(tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss
    result = await call(python(tmp_path, FLOOD))
    assert not result.is_error
    assert result.text.startswith("first x")
    assert result.text.endswith("x last")
    assert f"[output cut: {1600 * 65536 + 11 - LIMIT} of {1600 * 65536 + 11} bytes left out here]" in result.text
    assert len(result.text) < LIMIT + 200
    assert psutil.Process().memory_info().rss - before < 30_000_000


SPAWN = """
import subprocess, sys, time
child = "import time; open('started', 'a').write('x'); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child])
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
while len(open('started', 'a+').read() or open('started').read()) < 2: time.sleep(0.01)
print("both run", flush=True)
"""


async def test_after_the_timeout_every_process_is_gone(tmp_path: Path) -> None:
    spec = python(tmp_path, SPAWN + "time.sleep(60)", timeout=3)
    started = time.monotonic()
    result = await call(spec, "act-timeout")
    assert time.monotonic() - started < 40
    assert result.is_error
    assert result.text.startswith("The command took longer than 3 s and was ended with all its processes.")
    await eventually(lambda: not with_action("act-timeout"))


async def test_a_cancelled_run_ends_every_process_and_stays_cancelled(tmp_path: Path) -> None:
    task = asyncio.create_task(call(python(tmp_path, SPAWN + "time.sleep(60)"), "act-cancel"))
    await eventually(lambda: (tmp_path / "started").exists() and (tmp_path / "started").read_text() == "xx")
    assert len(with_action("act-cancel")) == 3
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not with_action("act-cancel"))


async def test_a_run_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    spec = python(tmp_path, "import time\ntime.sleep(60)")
    for turns in range(6):
        task = asyncio.create_task(call(spec, "act-early"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await eventually(lambda: not with_action("act-early"))


async def test_a_child_that_keeps_the_output_open_does_not_hold_the_tool_up(tmp_path: Path) -> None:
    started = time.monotonic()
    result = await call(python(tmp_path, LEFT_OPEN), "act-open")
    assert result == ToolResult("done\n")
    assert time.monotonic() - started < 40
    await eventually(lambda: not with_action("act-open"))


async def test_runs_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    spec = python(tmp_path, "import sys, time\nprint(sys.argv[1])", "{text}")
    results = await asyncio.gather(*(call(spec, f"act-{n}", text=n) for n in range(5)))
    assert [result.text for result in results] == [f"{n}\n" for n in range(5)]


def test_a_stray_is_found_that_just_changes_to_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class Starting(psutil.Process):
        """What the kernel shows in the middle of `execve`, at the first look."""

        def environ(self) -> dict[str, str]:
            nonlocal looks
            looks += 1
            return super().environ() if looks > 2 else {}

        def cmdline(self) -> list[str]:
            return super().cmdline() if looks > 2 else []

    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleep, env={"BUTLER_ACTION_ID": "act-starting"}) as stray:
        monkeypatch.setattr(psutil, "process_iter", lambda: iter([Starting(stray.pid)]))
        assert kill_strays("act-starting") == 1
        assert stray.wait(20) == -9


def test_strays_of_one_action_are_killed_and_no_others() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    mine = subprocess.Popen(sleep, env={"BUTLER_ACTION_ID": "act-stray"}, start_new_session=True)
    beside = subprocess.Popen(sleep, env={"BUTLER_ACTION_ID": "act-stray"})
    foreign = subprocess.Popen(sleep, env={"BUTLER_ACTION_ID": "act-other"}, start_new_session=True)
    try:
        assert kill_strays("act-stray") == 2
        assert (mine.wait(10), beside.wait(10)) == (-9, -9)
        assert foreign.poll() is None
        assert kill_strays("act-stray") == 0
    finally:
        for process in (mine, beside, foreign):
            process.kill()
            process.wait()


def test_a_tool_carries_what_its_declaration_says(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    more: dict[str, Any] = {
        "input_schema": schema,
        "command": ["true"],
        "verdict": "deny",
        "idempotent": True,
    }
    spec = declare(tmp_path, **more)
    assert (spec.governed, spec.verdict, spec.idempotent) == (True, "refuse", True)
    assert spec.source.endswith("tools.yml:12")
    assert spec.secret_args == {"pin"}
    assert declare(tmp_path, **more).digest == spec.digest
    assert declare(tmp_path, **{**more, "timeout": 31}).digest != spec.digest
    assert declare(tmp_path, command=["true"]).verdict is None


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_output_up_to_the_limit_is_whole_and_beyond_keeps_both_ends(chunks: list[bytes]) -> None:
    output = Output(limit=64, tail=16)
    for chunk in chunks:
        output.add(bytes(byte & 0x7F for byte in chunk))
    whole = "".join("".join(chr(byte & 0x7F) for byte in chunk) for chunk in chunks)
    text = output.text()
    if len(whole) <= 64:
        assert text == whole
        assert output.beginning() == whole
    else:
        assert text.startswith(whole[:32] + "\n[output cut: ")
        assert text.endswith("left out here]\n" + whole[-32:])
        assert output.beginning() == whole[:64] + "\n[output cut after 64 bytes]"
    note = "" if len(whole) <= 16 else f"[output cut: only the last 16 of {len(whole)} bytes]\n"
    assert output.tail() == note + whole[-16:]
