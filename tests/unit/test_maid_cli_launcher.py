"""Headless agents as maids: their prompt, what `goose run` prints, and their last word (D4, D9)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.acp.launcher import AcpLauncher
from butler.maids.acp.places import Place
from butler.maids.contract import Finished, Launch, MaidEvent, Output, Tokens, ToolUse
from butler.maids.launching.choose import launcher_for
from butler.maids.launching.cli import CliLauncher
from butler.maids.launching.headless import Settings
from butler.maids.launching.script import ScriptLauncher
from butler.maids.launching.speech import AgentSpeech
from butler.types import Json
from config.maid_types import Limits
from tests.support.maid_processes import QUICK, Notes, launch_of, python_maid, with_mark


async def run(launch: Launch, watcher: Notes | None = None) -> Finished:
    finished = await launcher_for(launch.maid, Settings(graces=QUICK)).run(launch, watcher or Notes())
    assert with_mark(launch.attempt_id) == []
    return finished


@pytest.mark.parametrize(
    ("kind", "command", "launcher"),
    [
        ("script", ("x",), ScriptLauncher),
        ("cli", ("goose", "acp"), CliLauncher),
        ("acp", ("x",), AcpLauncher),
        ("goose", ("/opt/goose", "acp", "--with-builtin", "developer"), AcpLauncher),
        ("goose", ("goose", "run", "-t", "{instruction}"), CliLauncher),
    ],
)
def test_the_kind_chooses_the_launcher(tmp_path: Path, kind: str, command: tuple[str, ...], launcher: type) -> None:
    assert isinstance(launcher_for(launch_of(tmp_path, *command, kind=kind).maid), launcher)


ECHO = "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (("{instruction}",), "['The whole prompt.'] ''"),
        (("-i", "{prompt_file}"), "['-i', 'FOLDER/prompt.txt'] ''"),
        ((), "[] 'The whole prompt.\\n'"),
    ],
    ids=["as an argument", "as a file", "on its input"],
)
async def test_an_agent_gets_the_whole_prompt(tmp_path: Path, items: tuple[str, ...], told: str) -> None:
    finished = await run(python_maid(tmp_path, ECHO, *items, kind="cli"))
    assert finished.claim == told.replace("FOLDER", str(tmp_path))


def message(role: str, *content: Json, identity: str = "m1") -> Json:
    return {"id": identity, "role": role, "created": 1, "content": list(content), "metadata": {}}


def asks(call_id: str, name: str, arguments: Json) -> Json:
    call = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": call_id, "toolCall": call, "_meta": {"goose_extension": "developer"}}


def answers(call_id: str, text: str, **changes: Any) -> Json:
    value = {"content": [{"type": "text", "text": text}], "isError": False, **changes}
    return {"type": "toolResponse", "id": call_id, "toolResult": {"status": "success", "value": value}}


MESSAGES = [
    message("assistant", {"type": "text", "text": "I begin."}),
    message("assistant", asks("c1", "write", {"path": "a.txt", "content": "hi"})),
    message("user", answers("c1", "Created a.txt"), identity="m2"),
    message("assistant", asks("c2", "shell", {"command": "false"}), identity="m3"),
    message("user", answers("c2", "exit 1", isError=True), identity="m4"),
    message("assistant", {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "All "}, identity="m5"),
    message("assistant", {"type": "text", "text": "done."}, identity="m5"),
]
SPENT = {"total_tokens": 220, "input_tokens": 200, "output_tokens": 20}
STREAM = "".join(
    json.dumps(line) + "\n"
    for line in [*({"type": "message", "message": one} for one in MESSAGES), {"type": "complete", **SPENT}]
)
DOCUMENT = json.dumps({"messages": MESSAGES, "metadata": {**SPENT, "status": "completed"}}, indent=2) + "\n"


def understood(tree: Path) -> list[MaidEvent]:
    tree = tree.resolve()
    write: Json = {"path": "a.txt", "content": "hi"}
    place = (tree / "a.txt",)
    return [
        Output("message", "I begin."),
        ToolUse("c1", "edit", "write", "in_progress", place, write),
        ToolUse("c1", "edit", "write", "completed", place, write, "Created a.txt"),
        ToolUse("c2", "execute", "shell", "in_progress", (), {"command": "false"}),
        ToolUse("c2", "execute", "shell", "failed", (), {"command": "false"}, "exit 1"),
        Output("thought", "hm"),
        Output("message", "All "),
        Output("message", "done."),
    ]


@pytest.mark.parametrize("text", [STREAM, DOCUMENT], ids=["stream-json", "json"])
async def test_what_goose_prints_becomes_messages_tool_calls_and_tokens(tmp_path: Path, text: str) -> None:
    (tmp_path / "said.txt").write_text(f"warning: {{odd}}\n{text}the end\n", "utf-8")
    code = "import sys; sys.stdout.write(open(sys.argv[1]).read())"
    notes = Notes()
    finished = await run(python_maid(tmp_path, code, str(tmp_path / "said.txt"), kind="cli"), notes)
    expected = understood(tmp_path / "tree")
    assert notes.events[1:] == [Output("stdout", "warning: {odd}\n"), *expected, Output("stdout", "the end\n")]
    assert finished.claim == "All done."
    assert finished.tokens == Tokens(200, 20, 3)
    assert finished.stdout_tail.endswith("the end\n")


OTHER_LINES = [
    '{"type":"thread.started","thread_id":"x"}\n',
    '{"type":"message","message":"not an object"}\n',
    "{broken\n",
    "[1]\n",
    "{\u2028}\n",
    "plain\n",
]


def speech(tree: Path) -> AgentSpeech:
    return AgentSpeech(Place.of(tree, tree))


@pytest.mark.parametrize("line", OTHER_LINES)
def test_any_other_line_is_text(tmp_path: Path, line: str) -> None:
    talk = speech(tmp_path)
    assert talk.take(line) == [Output("stdout", line)]
    assert (talk.claim, talk.tokens, talk.working) == (line.strip(), Tokens(), None)


def test_an_error_of_goose_is_its_last_word(tmp_path: Path) -> None:
    talk = speech(tmp_path)
    assert talk.take('{"type":"error","error":"no provider"}\n') == [Output("message", "no provider\n")]
    assert talk.claim == "no provider"


def test_a_document_that_is_none_is_told_as_text(tmp_path: Path) -> None:
    talk = speech(tmp_path)
    assert talk.take("{\n") == []
    assert talk.take('  "a": 1\n}\n') == [Output("stdout", line) for line in ("{\n", '  "a": 1\n', "}\n")]
    assert talk.take("{\n") == []
    assert talk.end() == [Output("stdout", "{\n")]
    assert talk.end() == []


def test_a_tool_that_failed_to_start_says_why(tmp_path: Path) -> None:
    talk = speech(tmp_path)
    response = {"type": "toolResponse", "id": "c", "toolResult": {"status": "error", "error": "no such tool"}}
    (event,) = talk.take(json.dumps({"type": "message", "message": message("user", response)}) + "\n")
    assert isinstance(event, ToolUse)
    assert (event.status, event.output) == ("failed", "no such tool")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["assistant", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "content", "toolCall", "value"]), inner, max_size=4)
    ),
    max_leaves=12,
)
PARTS = st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(["text", "thinking", "toolRequest", "toolResponse"]),
    st.dictionaries(st.sampled_from(["id", "text", "thinking", "toolCall", "toolResult"]), JSON, max_size=4),
)
LINES = st.builds(
    lambda role, content, identity: {"type": "message", "message": {"role": role, "content": content, "id": identity}},
    st.sampled_from(["assistant", "user"]) | JSON,
    st.lists(PARTS | JSON, max_size=3) | JSON,
    JSON,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(LINES | JSON, max_size=5))
def test_no_line_breaks_the_reading(lines: list[Any]) -> None:
    talk = speech(Path("/nowhere"))
    for line in lines:
        talk.take(json.dumps(line) + "\n")
    talk.end()
    assert isinstance(talk.claim, str)
    assert talk.tokens == Tokens(0, 0, talk.tokens.model_requests)


async def test_silence_after_a_tool_call_is_a_foreground_hang_and_else_a_timeout(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\nprint(sys.argv[1])\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )

    async def silent_after(name: str, said: Json) -> str | None:
        (tmp_path / name).mkdir()
        line = json.dumps({"type": "message", "message": said}).replace("{", "{{").replace("}", "}}")
        launch = python_maid(tmp_path / name, code, line, kind="cli", limits=Limits(silence=1.0))
        finished = await run(launch)
        return None if finished.stopped is None else finished.stopped.failure_class

    ends = await asyncio.gather(silent_after("tool", MESSAGES[1]), silent_after("text", MESSAGES[0]))
    assert list(ends) == ["hung_foreground", "timeout"]


async def test_an_exit_code_of_0_says_nothing_either(tmp_path: Path) -> None:
    finished = await run(launch_of(tmp_path, sys.executable, "-c", "print('All tests pass.')", kind="cli"))
    assert (finished.exit_code, finished.stopped, finished.claim) == (0, None, "All tests pass.")
