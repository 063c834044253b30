"""The files that ship with the butler are valid, and their tools work on a machine that has only Python."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from butler.approvals.policy import Policy, classify
from butler.tools.declared import declared_toolset
from butler.tools.registry import ToolRegistry
from butler.types import Invocation, ToolResult
from config.policy_file import load_policy_file
from config.published import FOLDER
from config.tools_file import load_tools_file

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shipped = FOLDER.parent
    for name in ("tools.yml", "policy.yml"):
        shutil.copy(shipped / name, tmp_path)
    shutil.copytree(shipped / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("journal.txt"))
    return tmp_path


@pytest.fixture
def tools(folder: Path) -> ToolRegistry:
    return ToolRegistry([declared_toolset(load_tools_file(folder / "tools.yml", ENVIRON), ENVIRON)])


async def call(tools: ToolRegistry, name: str, **args: Any) -> ToolResult:
    spec = tools.get(name)
    assert spec is not None
    assert tools.validate(name, args) == []
    return await spec.run(Invocation("act-1", name, args, "thread", "run", "ada"))


async def test_the_journal_is_written_read_and_cleared(tools: ToolRegistry, folder: Path) -> None:
    assert await call(tools, "read_journal") == ToolResult("The journal is empty.\n")
    assert await call(tools, "append_line", text="ärste\nLine") == ToolResult("Appended: ärste Line\n")
    assert await call(tools, "append_line", text="-second") == ToolResult("Appended: -second\n")
    assert (folder / "tools" / "journal.txt").read_text("utf-8") == "ärste Line\n-second\n"
    assert await call(tools, "read_journal", lines=1) == ToolResult("-second\n")
    assert (await call(tools, "clear_journal")).text == "The journal is empty now; it had 2 lines.\n"
    assert await call(tools, "read_journal") == ToolResult("The journal is empty.\n")


@pytest.mark.parametrize(
    ("name", "args", "verdict", "rule"),
    [
        ("append_line", {"text": "hello"}, "approve", "default"),
        ("read_journal", {}, "allow", "reading-is-safe"),
        ("clear_journal", {}, "approve", "clearing-cannot-be-undone"),
        ("append_line", {"text": "x\n-----BEGIN RSA PRIVATE KEY-----\n"}, "refuse", "no-secrets-in-the-journal"),
    ],
)
def test_the_policy_allows_reading_asks_for_writing_and_refuses_secrets(
    name: str, args: dict[str, Any], verdict: str, rule: str, tools: ToolRegistry, folder: Path
) -> None:
    policy = Policy(load_policy_file(folder / "policy.yml"))
    spec = tools.get(name)
    assert spec is not None
    ruling = classify(policy, name, args, own_verdict=spec.verdict)
    assert (ruling.verdict, ruling.rule) == (verdict, rule)
    assert policy.unreachable_rules() == ()
    assert policy.mistaken_tools(tools.names()) == ()
