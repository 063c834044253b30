"""Rules about tools that only a running server brings: not mistaken, not useless, and tried with the file's verdict."""

from __future__ import annotations

import pytest

from config.mcp_file import McpServerDefinition, McpToolRule
from config.policy_file import RuleDefinition
from service.mcp_names import known_with_brought, verdict_in_file
from tests.support.server import MakeButler

SERVERS = (
    McpServerDefinition("files", "mcp.json:2", True, command="x", tools={"read": McpToolRule("allow")}),
    McpServerDefinition("web", "mcp.json:3", True, url="http://h/", verdict="refuse"),
)


@pytest.mark.parametrize(
    ("pattern", "theirs"),
    [("files__write", True), ("files__*", True), ("fil*", True), ("*__read", True), ("*", True), ("file__write", False),
     ("delete_*", False), ("append_line", False)],
)  # fmt: skip
def test_a_rule_may_be_about_a_tool_that_a_server_brings(pattern: str, theirs: bool) -> None:
    rule = RuleDefinition(name="r", tool=pattern, args={}, verdict="allow", reason=None, risk=None, deciders=None,
                          expires_in=None, source="policy.yml:1")  # fmt: skip
    assert (pattern in known_with_brought((), [rule], SERVERS)) is theirs


@pytest.mark.parametrize(
    ("tool", "verdict"),
    [("files__read", "allow"), ("files__write", "approve"), ("web__get", "refuse"), ("append_line", None)],
)
def test_the_files_verdict_is_known_without_the_server(tool: str, verdict: str | None) -> None:
    assert verdict_in_file(tool, SERVERS) == verdict


def test_the_command_line_tries_and_checks_rules_about_them(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False)
    server.workshop.write_mcp(append={"command": "x", "verdict": "allow"})
    # Nearly the name of a declared tool: without the server it would be a misspelling.
    server.workshop.write_policy({"name": "mine", "tool": "append__lines", "verdict": "refuse"})
    checked = server.cli("policy", "check", "--actions", "0")
    assert checked.returncode == 0, checked.stderr
    tried = server.cli("policy", "test", "append__other")
    assert "verdict: allow" in tried.stdout and "would be a tool of an MCP server" in tried.stderr
    assert "verdict: refuse" in server.cli("policy", "test", "append__lines").stdout
