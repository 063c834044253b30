"""mcp.json: the form that MCP clients share is read, every fault stops the start with its line (E3)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.mcp_entries import McpServerEntry
from config.mcp_file import McpServerDefinition, load_mcp_file
from config.problems import ConfigError
from config.published import published_schemas

GOOD: dict[str, Any] = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server", "${FOLDER}"], "env": {"API_TOKEN": "${SECRET_WORD}"}},
        "remote": {
            "type": "http",
            "url": "https://mcp.example/mcp",
            "headers": {"Authorization": "Bearer ${SECRET_WORD}", "X-Team": "${TEAM:-blue}"},
            "timeout": 5,
            "startup_timeout": 2,
            "verdict": "allow",
            "tools": {"drop": {"verdict": "deny"}, "old": {"enabled": False}},
        },
        "off": {"command": "true", "disabled": True},
    }
}
ENVIRON = {"FOLDER": "notes", "SECRET_WORD": "s3cret-word"}


def load(tmp_path: Path, value: Any, environ: dict[str, str] | None = None) -> tuple[McpServerDefinition, ...]:
    path = tmp_path / "mcp.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent="\t"), "utf-8")
    return load_mcp_file(path, ENVIRON if environ is None else environ, cwd=tmp_path)


def faults(tmp_path: Path, value: Any, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, value, environ)
    return [str(problem) for problem in caught.value.problems]


def server(**entry: Any) -> dict[str, Any]:
    return {"mcpServers": {"one": entry}}


def test_a_good_file_becomes_definitions(tmp_path: Path) -> None:
    files, remote, off = load(tmp_path, GOOD)
    assert (files.name, files.source, files.command, files.args) == (
        "files", "mcp.json:3", "npx", ("-y", "server", "notes"),
    )  # fmt: skip
    assert (files.env, files.cwd, files.verdict, files.timeout) == ({"API_TOKEN": "s3cret-word"}, tmp_path, None, 60)
    assert (remote.url, remote.timeout, remote.startup_timeout, remote.verdict) == (
        "https://mcp.example/mcp", 5, 2, "allow",
    )  # fmt: skip
    assert remote.headers == {"Authorization": "Bearer s3cret-word", "X-Team": "blue"}
    assert (remote.tools["drop"].verdict, remote.tools["old"].enabled) == ("refuse", False)
    assert [one.enabled for one in (files, remote, off)] == [True, True, False]


def test_an_absent_and_an_empty_file_name_no_servers(tmp_path: Path) -> None:
    assert load_mcp_file(tmp_path / "absent.json", {}) == ()
    assert load(tmp_path, "") == load(tmp_path, "{}") == load(tmp_path, {"mcpServers": {}}) == ()


def test_secrets_are_known_wherever_they_stand_and_other_variables_are_none(tmp_path: Path) -> None:
    files, remote, _ = load(tmp_path, GOOD)
    assert "s3cret-word" in files.secrets and "s3cret-word" in remote.secrets
    assert files.secret_variables == remote.secret_variables == {"SECRET_WORD"}
    [written] = load(tmp_path, server(url="http://h/mcp", headers={"X-Api-Key": "written-out"}))
    assert "written-out" in written.secrets
    assert not any("notes" in one.secrets for one in load(tmp_path, GOOD))


def test_where_tools_come_from_is_kept_as_written_and_without_what_only_says_how_they_are_asked_about(
    tmp_path: Path,
) -> None:
    _, remote, _ = load(tmp_path, GOOD)
    assert sorted(remote.declaration) == ["headers", "type", "url"]
    assert "s3cret-word" not in json.dumps(dict(remote.declaration))


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"comand": "x"}, "mcpServers.one.comand: unknown key (did you mean 'command'?)"),
        ({}, "mcpServers.one: expected exactly one of 'command' and 'url', got neither"),
        ({"command": "x", "url": "http://h/"}, "mcpServers.one: expected exactly one of 'command' and 'url', got both"),
        ({"command": "x", "headers": {}}, "mcpServers.one.headers: has a meaning only with 'url'"),
        ({"url": "http://h/", "args": []}, "mcpServers.one.args: has a meaning only with 'command'"),
        ({"url": "http://h/", "type": "stdio"}, "mcpServers.one.type: says 'stdio', but the entry has a url"),
        ({"command": "x", "transport": "http"}, "mcpServers.one.transport: says 'http', but the entry has a command"),
        ({"command": "x", "type": "htp"}, "(did you mean 'http'?)"),
        ({"url": "ftp://h/"}, "mcpServers.one.url: expected http:// or https:// and a host"),
        ({"url": "http://a:b@h/"}, "mcpServers.one.url: holds a user name or password; send them in 'headers'"),
        ({"url": "http://h/", "headers": {"Mcp-Session-Id": "1"}}, "Mcp-Session-Id: is set by the butler itself"),
        ({"url": "http://h/", "headers": {"X": "a\nb"}}, "headers.X: a header holds printable ASCII on one line"),
        ({"command": "x", "args": ["${NOT_SET}"]}, "the environment variable 'NOT_SET' is not set"),
        ({"command": "x", "env": {"A": "${no-name}"}}, "one.env.A: '${no-name}' names no environment variable"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.one.env.A: expected text, got 1; put it in quotes"),
        ({"command": "x", "cwd": "absent"}, "mcpServers.one.cwd: 'absent' is no folder"),
        ({"command": "x", "cwd": "~nobody-of-that-name/x"}, "mcpServers.one.cwd: can't be looked up: "),
        ({"command": "x", "cwd": "x" * 5000}, "mcpServers.one.cwd: can't be looked up: File name too long"),
        ({"command": "x", "timeout": 0}, "mcpServers.one.timeout: expected greater than 0, got 0"),
        ({"command": "x", "verdict": "alow"}, "(did you mean 'allow'?)"),
        ({"command": "x", "tools": {"t": {"verdct": "allow"}}}, "unknown key (did you mean 'verdict'?)"),
        ({"command": "x", "autoApprove": ["t"]}, 'belongs to another client; write "tools"'),
        ({"command": "x", "enabled": True, "disabled": True}, "mcpServers.one.disabled: contradicts 'enabled'"),
        ({"command": "a\0"}, "the NUL character can't be passed to a program"),
    ],
)  # fmt: skip
def test_every_fault_is_told_with_its_key(tmp_path: Path, entry: dict[str, Any], told: str) -> None:
    found = faults(tmp_path, server(**entry))
    assert any(told in one for one in found), found
    assert all(one.startswith("mcp.json:") for one in found)


def test_a_variable_that_is_not_set_is_one_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, server(url="${NOT_SET}")) == [
        "mcp.json:4: mcpServers.one.url: the environment variable 'NOT_SET' is not set"
    ]


def test_the_old_transport_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert faults(tmp_path, server(type="sse", url="http://h/sse")) == [
        "mcp.json:4: mcpServers.one.type: the old SSE transport is not supported; give the address of the server's "
        "streamable HTTP endpoint instead"
    ]


@pytest.mark.parametrize("name", ["a b", "", "-a", "a__b", "x" * 33, "a/b", "ä", "a\n"])
def test_a_server_name_that_models_could_not_take_is_a_fault(tmp_path: Path, name: str) -> None:
    assert faults(tmp_path, {"mcpServers": {name: {"command": "x"}}})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"mcpServers": {}', "mcp.json:1: json: Expecting ',' delimiter, at column 18"),
        ("[]", "mcp.json:1: file: expected an object with 'mcpServers'"),
        ('{"mcpServers": []}', "mcp.json:1: mcpServers: expected an object with one entry for each server"),
        ('{"mcpservers": {}}', "mcp.json:1: mcpservers: unknown key (did you mean 'mcpServers'?)"),
        ('{"mcpServers": {"a": 1}}', "mcp.json:1: mcpServers.a: expected an object with 'command' or 'url'"),
        ('{"mcpServers": {\n"a": {"command": "x"},\n"a": {"command": "y"}}}',
         "mcp.json:3: mcpServers.a: duplicate key, first on line 2"),
        ('{"mcpServers": {"a": {"command": "x", "timeout": NaN}}}', "mcp.json:1: json: NaN is no JSON"),
        ("mcpServers: {}", "mcp.json:1: json: Expecting value, at column 1"),
    ],
)  # fmt: skip
def test_what_is_no_sound_json_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in faults(tmp_path, text)


def test_texts_with_escapes_are_read_as_json_reads_them(tmp_path: Path) -> None:
    [one] = load(tmp_path, '{"mcpServers": {"a": {"command": "x", "args": ["\\ud83d\\ude00\\/\\t"]}}}')
    assert one.args == ("😀/\t",)


def test_the_example_of_the_page_is_a_good_file(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text("utf-8")
    [example] = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files, tickets = load(tmp_path, example, {"HOME": "x", "TICKETS_TOKEN": "secret-token"})
    assert (files.tools["read_text_file"].verdict, tickets.timeout) == ("allow", 20)
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))))
    assert documented == set(McpServerEntry.model_fields)


def test_the_published_schema_accepts_the_good_file_and_no_misspelt_one() -> None:
    schema = Draft202012Validator(json.loads(published_schemas()["mcp.schema.json"]))
    assert schema.is_valid(GOOD)
    assert not schema.is_valid(json.loads(json.dumps(GOOD).replace("timeout", "timeuot")))
