"""tools.yml: a good file becomes definitions, every fault stops the start with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.policy_file import load_policy_file
from config.problems import ConfigError
from config.published import FOLDER, published_schemas
from config.tools_file import ToolDefinition, load_tools_file

GOOD = """
tools:
  - name: append_line
    description: Append one line to the journal
    input_schema:
      type: object
      properties: {text: {type: string, maxLength: 500}}
      required: [text]
      additionalProperties: false
    command: [python3, append.py, "{text}"]
    cwd: .
    env: [PATH]
    timeout: 5
    verdict: ask
    idempotent: true
  - name: post_note
    description: Post to the team hook
    input_schema: {type: object, properties: {text: {type: string}}, required: [text]}
    http: {method: POST, url: "http://127.0.0.1:9900/note", json: {text: "{text}"},
           headers: {Authorization: "Bearer ${HOOK_TOKEN}"}}
"""


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> tuple[ToolDefinition, ...]:
    path = tmp_path / "tools.yml"
    path.write_text(text, "utf-8")
    return load_tools_file(path, environ or {}, cwd=tmp_path)


def faults(tmp_path: Path, text: str) -> tuple[str, list[str]]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return caught.value.code, [str(problem) for problem in caught.value.problems]


def entry(**changes: Any) -> str:
    tool: dict[str, Any] = {
        "name": "one",
        "description": "d",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "command": ["true", "{text}"],
    }
    tool.update(changes)
    return yaml.safe_dump({"tools": [{key: value for key, value in tool.items() if value is not ...}]})


def test_a_good_file_becomes_definitions(tmp_path: Path) -> None:
    command, http = load(tmp_path, GOOD, {"HOOK_TOKEN": "t"})
    assert (command.name, command.source, command.verdict) == ("append_line", "tools.yml:3", "approve")
    assert (command.cwd, command.env, command.timeout, command.idempotent) == (tmp_path, ("PATH",), 5, True)
    assert command.command is not None
    assert [item.whole_argument for item in command.command] == [None, None, "text"]
    assert (http.source, http.verdict, http.timeout, http.idempotent) == ("tools.yml:16", None, 30, False)
    assert http.http is not None
    assert http.http.headers["Authorization"].variables == ("HOOK_TOKEN",)


@pytest.mark.parametrize("text", ["", "tools:\n  []\n"])
def test_an_empty_file_declares_nothing_but_an_empty_list_is_an_error(text: str, tmp_path: Path) -> None:
    if not text:
        assert load(tmp_path, text) == ()
        assert load_tools_file(tmp_path / "absent.yml", {}) == ()
        return
    code, found = faults(tmp_path, text)
    assert code == "no_governed_tools"
    assert found[0].startswith("tools.yml:1: tools: ")


@pytest.mark.parametrize(("written", "meant"), [("deny", "refuse"), ("refuse", "refuse"), ("allow", "allow")])
def test_a_verdict_may_be_written_in_two_ways(written: str, meant: str, tmp_path: Path) -> None:
    assert load(tmp_path, entry(verdict=written))[0].verdict == meant


def test_a_duplicate_name_names_both_places(tmp_path: Path) -> None:
    tool = "  - {name: one, description: d, input_schema: {type: object}, command: [x]}\n"
    code, found = faults(tmp_path, f"tools:\n{tool}{tool}")
    assert code == "duplicate_governed_tool"
    assert found == ["tools.yml:3: name: the tool 'one' is already declared at tools.yml:2"]


SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
URL = "http://h/"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "Bad"}, "name: 'Bad' does not match"),
        ({"name": "a\n"}, "name: 'a\\n' does not match"),
        ({"name": ...}, "name: is missing"),
        ({"description": ""}, "description: expected"),
        (
            {"verdict": "aprove"},
            "verdict: expected one of allow, approve, refuse, ask, deny, got 'aprove' (did",
        ),
        ({"timeout": 0}, "timeout: expected greater than 0"),
        ({"idempotent": "true"}, "idempotent: expected a boolean"),
        ({"idempotant": True}, "idempotant: unknown key (did you mean 'idempotent'?)"),
        (
            {"command": ["true", "{txt}"]},
            "command[1]: {txt} is no property of input_schema (did you mean 'text'?)",
        ),
        ({"command": ["true", "${HOME}"]}, "command[1]: {HOME} is no property of input_schema"),
        ({"command": ["true", "a{"]}, "command[1]: the brace '{' in 'a{' stands alone; write '{{'"),
        ({"command": ["{text}"]}, "command[0]: the program can't be an argument"),
        ({"command": []}, "command: expected"),
        ({"command": ["true", "a\0"]}, "command[1]: the NUL character"),
        ({"command": ...}, "tools[0]: expected exactly one of 'command' and 'http', got neither"),
        ({"http": {"url": URL}}, "tools[0]: expected exactly one of 'command' and 'http', got both"),
        ({"cwd": "nowhere"}, "cwd: 'nowhere' is no folder"),
        ({"env": ["A=B"]}, "env[0]: 'A=B' does not match"),
        ({"input_schema": {"type": "array"}}, "input_schema: must have 'type: object'"),
        ({"input_schema": {"type": "object", "required": "text"}}, "input_schema: is no valid JSON Schema"),
        ({"input_schema": {"type": "object", "pattern": "("}}, "input_schema: is no valid JSON Schema"),
        ({"input_schema": {**SCHEMA, "$ref": "http://h/s"}}, "input_schema: refers to 'http://h/s'"),
        ({"input_schema": {**SCHEMA, "$ref": "#/$defs/x"}}, "input_schema: refers to '#/$defs/x'"),
        ({"command": ..., "http": {}}, "http.url: is missing"),
        ({"command": ..., "http": {"url": "ftp://h/"}}, "http.url: expected http:// or https://"),
        ({"command": ..., "http": {"url": "http://{text}/"}}, "http.url: expected http:// or https://"),
        ({"command": ..., "http": {"url": "http://h{text}"}}, "http.url: expected http:// or https://"),
        ({"command": ..., "http": {"url": "http://a@{text}/"}}, "http.url: expected http:// or https://"),
        ({"command": ..., "http": {"url": URL, "method": "SEND"}}, "http.method: expected one of GET"),
        (
            {"command": ..., "http": {"url": URL, "json": {"a": ["{b}"]}}},
            "http.json.a[0]: {b} is no property",
        ),
        (
            {"command": ..., "http": {"url": URL, "headers": {"A": "${NO}"}}},
            "http.headers.A: the environment variable 'NO' is not",
        ),
        ({"command": ..., "http": {"url": "${NO}/"}}, "http.url: the environment variable 'NO' is not set"),
        (
            {"command": ..., "http": {"url": URL, "headers": {"A B": "x"}}},
            "http.headers.A B: 'A B' does not match",
        ),
        (
            {"command": ..., "http": {"url": URL, "headers": {"HOST": "x"}}},
            "http.headers.HOST: is set by the butler",
        ),
        ({"command": ..., "http": {"url": URL}, "env": ["A"]}, "env: has a meaning only with 'command'"),
    ],
)
def test_a_fault_of_one_tool_is_named(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    code, found = faults(tmp_path, entry(**changes))
    assert code == "invalid_config"
    assert any(fault in line for line in found), found


def test_a_url_may_take_its_origin_from_a_variable_and_arguments_after_it(tmp_path: Path) -> None:
    text = entry(command=..., http={"url": "${BASE}/x/{text}?q={text}"})
    (tool,) = load(tmp_path, text, {"BASE": "https://h:1"})
    assert tool.http is not None
    assert tool.http.url.arguments == ("text", "text")


def test_all_faults_of_all_tools_are_named_at_once(tmp_path: Path) -> None:
    text = "tools:\n" + "".join(
        f"  - name: t{number}\n    input_schema: {{type: object}}\n    command: [x, '{{y}}']\n" for number in range(3)
    )
    _, found = faults(tmp_path, text)
    assert [line.split(": ")[:2] for line in found] == [
        [f"tools.yml:{3 * number + offset}", key]
        for number in range(3)
        for offset, key in ((2, "description"), (4, "command[1]"))
    ]


def test_the_published_schemas_are_current_and_accept_good_files(tmp_path: Path) -> None:
    published = published_schemas()
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(published)
    for name, text in published.items():
        assert (FOLDER / name).read_text("utf-8") == text, "run python -m config.published"
        Draft202012Validator.check_schema(json.loads(text))
    tools = Draft202012Validator(json.loads(published["tools.schema.json"]))
    assert tools.is_valid(yaml.safe_load(GOOD))
    assert not tools.is_valid(yaml.safe_load(GOOD.replace("timeout", "timeuot")))


class TestPolicyFile:
    def faults(self, tmp_path: Path, text: str) -> list[str]:
        path = tmp_path / "policy.yml"
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_policy_file(path, cwd=tmp_path)
        assert caught.value.code == "invalid_config"
        return [str(problem) for problem in caught.value.problems]

    def test_a_good_file_keeps_the_order_of_its_rules(self, tmp_path: Path) -> None:
        path = tmp_path / "policy.yml"
        path.write_text(
            "default: deny\nrules:\n- {name: a, tool: 'x_*', args: {target: 'p-*'}, verdict: ask,"
            " risk: cross_hub, deciders: [admin, requester], expires_in: 3600, reason: r}\n"
            "- {name: b, tool: y, verdict: allow}\n"
        )
        policy = load_policy_file(path, cwd=tmp_path)
        assert policy.default == "refuse"
        first, second = policy.rules
        assert (first.name, first.verdict, first.risk, first.expires_in) == (
            "a",
            "approve",
            "cross_hub",
            3600,
        )
        assert (first.args, first.deciders, first.source) == (
            {"target": "p-*"},
            ("admin", "requester"),
            "policy.yml:3",
        )
        assert (second.name, second.deciders, second.reason, second.risk) == ("b", None, None, None)

    def test_an_absent_file_has_no_rules_and_asks(self, tmp_path: Path) -> None:
        policy = load_policy_file(tmp_path / "absent.yml")
        assert (policy.default, policy.rules) == ("approve", ())

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("defalt: allow", "policy.yml:1: defalt: unknown key (did you mean 'default'?)"),
            (
                "default: alow",
                "policy.yml:1: default: expected one of allow, approve, refuse, ask, deny, got 'alow'",
            ),
            ("default: no", "policy.yml:1: default: expected one of"),
            ("rules: {}", "policy.yml:1: rules: expected a list, got a mapping"),
            ("rules:\n- {name: a, tool: b}", "policy.yml:2: verdict: is missing"),
            ("rules:\n- {tool: b, verdict: ask}", "policy.yml:2: name: is missing"),
            ("rules:\n- {name: default, tool: b, verdict: ask}", "policy.yml:2: name: 'default' is what"),
            ("rules:\n- {name: 'grant:1', tool: b, verdict: ask}", "policy.yml:2: name: 'grant:1' is what"),
            (
                "rules:\n- {name: a, tool: b, verdict: ask, args: {n: 1}}",
                "args.n: expected text, got 1; put it in",
            ),
            (
                "rules:\n- {name: a, tool: b, verdict: ask, risk: high}",
                "risk: expected one of safe, dangerous",
            ),
            (
                "rules:\n- {name: a, tool: b, verdict: ask, deciders: [agent]}",
                "deciders: an 'agent' can never",
            ),
            ("rules:\n- {name: a, tool: b, verdict: ask, deciders: admin}", "deciders: expected a list"),
            (
                "rules:\n- {name: a, tool: b, verdict: ask, expires_in: 0}",
                "expires_in: expected greater than 0",
            ),
            ("rules:\n- {name: a, tool: b, verdict: ask, expires_in: true}", "expires_in: expected a number"),
            (
                "rules:\n- {name: a, tool: b, verdict: ask}\n- {name: a, tool: c, verdict: ask}",
                "policy.yml:3: name: the rule 'a' is already defined at policy.yml:2",
            ),
        ],
    )
    def test_a_fault_is_named(self, text: str, fault: str, tmp_path: Path) -> None:
        found = self.faults(tmp_path, text)
        assert any(fault in line for line in found), found
