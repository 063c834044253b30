"""maid_registry.yml: the contract's example loads, every fault stops the start with its line and what was meant."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.maid_profile import Allowed, read_profile, url_fault
from config.maid_types import CommandCheck, ExactOutput, FileCheck, HttpCheck, MaidDefinition, MaidRegistryFile
from config.maids_file import load_maids_file, read_maids_file
from config.problems import ConfigError
from config.published import published_schemas

GOOD = """
maids:
  - maid_id: script_formatter
    kind: script                      # script | cli | acp | goose
    label: Formatter
    provider: local_script
    model: null
    role: format
    command_template: [python3, format.py, "{project_root}"]
    env: [PATH]
    enabled: true
    timeout: 120
    permission: approve
    launch_verdict: allow
    verification_profile:
      file_checks: [{path: out.txt, exists: true, contains: "formatted"}]
      test_commands: [[python3, -m, pytest, -q]]
      http_checks: [{url: "http://127.0.0.1:8000/", expect_status: 200, expect_body: "hello"}]
      exact_output: [{path: out.txt, expect: "formatted\\n"}]
allowed_commands: [[python3, -m, pytest, -q]]
project_roots: ["/path/allowed", "~/projects"]
"""


def load(tmp_path: Path, text: str) -> MaidRegistryFile:
    path = tmp_path / "maid_registry.yml"
    path.write_text(text, "utf-8")
    registry = load_maids_file(path, cwd=tmp_path)
    schema = Draft202012Validator(json.loads(published_schemas()["maid_registry.schema.json"]))
    assert schema.is_valid(yaml.safe_load(text))
    return registry


def maid(tmp_path: Path, keys: str, rest: str = "allowed_commands: [[make, test], [serve]]\n") -> MaidDefinition:
    """Read a file with one maid; `keys` are its lines from line 2 on, after its id."""
    return load(
        tmp_path, f"{rest}maids:\n  - maid_id: a\n" + "".join(f"    {line}\n" for line in keys.splitlines())
    ).maids[0]


def faults(tmp_path: Path, keys: str, rest: str = "allowed_commands: [[make, test], [serve]]\n") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        maid(tmp_path, keys, rest)
    return [str(problem).removeprefix("maid_registry.yml:") for problem in caught.value.problems]


SCRIPT = "kind: script\ncommand_template: [run]\n"


def profile(tmp_path: Path, keys: str) -> list[str]:
    found = faults(tmp_path, f"{SCRIPT}verification_profile: {{{keys}}}")
    return [re.sub(r"^6: verification_profile\.?", "", fault) for fault in found]


def test_the_example_of_the_contract_loads_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    registry = load(tmp_path, GOOD)
    [found] = registry.maids
    assert (found.maid_id, found.kind, found.label, found.provider, found.model, found.role) == (
        "script_formatter", "script", "Formatter", "local_script", None, "format",
    )  # fmt: skip
    assert found.command_template == ("python3", "format.py", "{project_root}")
    assert (found.env, found.enabled, found.timeout) == (("PATH",), True, 120)
    assert (found.permission, found.launch_verdict, found.source) == ("approve", "allow", "maid_registry.yml:3")
    checks = found.verification_profile
    assert checks.file_checks == (FileCheck("out.txt", True, "formatted"),)
    assert checks.test_commands == (CommandCheck(("python3", "-m", "pytest", "-q")),)
    assert checks.http_checks == (HttpCheck("http://127.0.0.1:8000/", 200, "hello"),)
    assert checks.exact_output == (ExactOutput("formatted\n", path="out.txt"),)
    assert registry.allowed_commands == (("python3", "-m", "pytest", "-q"),)
    assert registry.project_roots == (Path("/path/allowed"), tmp_path.resolve() / "projects")
    assert registry.maid("script_formatter") is found and registry.maid("x") is None


def test_an_absent_or_empty_file_has_no_maids(tmp_path: Path) -> None:
    assert load_maids_file(tmp_path / "none.yml") == MaidRegistryFile()
    (tmp_path / "empty.yml").write_text("# nothing\n")
    assert load_maids_file(tmp_path / "empty.yml") == MaidRegistryFile()


def test_keys_of_butlers_own_are_read_and_verdict_words_mean_what_they_mean_elsewhere(tmp_path: Path) -> None:
    keys = (
        "kind: acp\ncommand_template: [agent, '{model}', '{{x}}']\nmodel: m\nmode: auto\npermission: deny\n"
        "launch_verdict: ask\nlimits: {tool_calls: 9, silence: 5}\nsandbox: bubblewrap\nvariables: {A: '1'}\n"
        "endpoint: {base_url: 'https://host/v1/', api_key_env: KEY}\n"
        "verification_profile: {start: [serve], ready_within: 4, http_checks: [{url: 'http://build.example/'}],"
        " test_commands: [{command: [make, test], timeout: 7}]}"
    )
    found = maid(tmp_path, keys, "allowed_commands: [[serve], [make, test]]\nallowed_hosts: [Build.example]\n")
    assert (found.permission, found.launch_verdict, found.mode, found.sandbox) == (
        "refuse", "approve", "auto", "bubblewrap",
    )  # fmt: skip
    assert (found.limits.tool_calls, found.limits.silence, found.limits.equal_calls) == (9, 5, 4)
    assert found.endpoint and (found.endpoint.base_url, found.endpoint.api_key_env) == ("https://host/v1", "KEY")
    assert (found.verification_profile.start, found.verification_profile.ready_within) == (("serve",), 4)
    assert found.verification_profile.test_commands[0].timeout == 7
    assert found.command_template == ("agent", "{model}", "{{x}}")


def test_goose_has_a_command_of_its_own_and_other_kinds_need_one(tmp_path: Path) -> None:
    goose = ("goose", "acp", "--with-builtin", "developer")
    assert maid(tmp_path, "kind: goose").command_template == goose
    assert maid(tmp_path, "kind: goose\ncommand_template: []").command_template == goose
    assert maid(tmp_path, "kind: goose\ncommand_template: [goose2]").command_template == ("goose2",)
    needed = "a maid of kind 'cli' needs a command_template, such as [python3, format.py]"
    assert faults(tmp_path, "kind: cli\ncommand_template: []") == [f"5: command_template: {needed}"]
    assert faults(tmp_path, "kind: cli") == [f"3: maids[0]: {needed}"]


def test_scripts_beside_the_file_are_found_there_and_others_are_left_to_the_tree(tmp_path: Path) -> None:
    (tmp_path / "maids").mkdir()
    script = tmp_path / "maids" / "x.py"
    script.write_text("")
    keys = (
        "kind: script\ncommand_template: [python3, maids/x.py, other.py, '{project_root}']\n"
        "verification_profile: {test_commands: [[maids/x.py, '{a}']]}"
    )
    found = maid(tmp_path, keys, "allowed_commands: [[maids/x.py, '{a}']]\n")
    assert found.command_template == ("python3", str(script), "other.py", "{project_root}")
    assert found.verification_profile.test_commands[0].command == (str(script), "{a}")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (f"{SCRIPT}tiemout: 5", "6: tiemout: unknown key (did you mean 'timeout'?)"),
        (f"{SCRIPT}timeout: 0", "6: timeout: expected greater than 0, got 0"),
        (f"{SCRIPT}timeout: soon", "6: timeout: expected a number, got 'soon'"),
        (f"{SCRIPT}enabled: 'yes'", "6: enabled: expected a boolean, got 'yes'"),
        (f"{SCRIPT}env: [A-B]", "6: env[0]: 'A-B' does not match ^[A-Za-z_][A-Za-z0-9_]*$"),
        (f"{SCRIPT}variables: {{A: 1}}", "6: variables: the value of 'A' must be text; put it in quotes"),
        (f"{SCRIPT}env: [A]\nvariables: {{A: x}}", "7: variables.A: is listed in env too; either pass it through or "
         "set it"),
        (f"{SCRIPT}mode: auto", "6: mode: has a meaning only with kind 'acp' or 'goose'; this maid's is 'script'"),
        (f"{SCRIPT}limits: {{tool_cals: 1}}", "6: limits.tool_cals: unknown key (did you mean 'tool_calls'?)"),
        (f"{SCRIPT}launch_verdict: refuse", "6: launch_verdict: expected one of allow, approve, ask, got 'refuse'"),
        (
            f"{SCRIPT}permission: alow",
            "6: permission: expected one of allow, approve, refuse, ask, deny, got 'alow' (did you mean 'allow'?)",
        ),
        ("kind: gose", "4: kind: expected one of script, cli, acp, goose, got 'gose' (did you mean 'goose'?)"),
        (
            "kind: cli\ncommand_template: [run, '{instrucion}']",
            "5: command_template[1]: unknown placeholder {instrucion}; known are {instruction}, {project_root}, "
            "{prompt_file}, {intent}, {model} (did you mean 'instruction'?)",
        ),
        ("kind: cli\ncommand_template: ['{model}']\nmodel: m", "5: command_template[0]: the program must be named; "
         "it can't be empty or a placeholder"),
        ("kind: cli\ncommand_template: [run, '{model}']\nmodel: null", "5: command_template[1]: {model} is used, but "
         "the model of this maid is null"),
        (f"{SCRIPT}endpoint: {{base_url: 'https://u:p@h/'}}", "6: endpoint.base_url: a key must not stand in the URL; "
         "name its variable in api_key_env"),
    ],
)  # fmt: skip
def test_a_fault_names_line_key_and_what_was_meant(tmp_path: Path, keys: str, expected: str) -> None:
    assert faults(tmp_path, keys) == [expected]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("test_commands: [[make, tests]]", ".test_commands[0]: [make, tests] is not in allowed_commands "
         "(did you mean [make, test]?)"),
        ("test_commands: [make]", ".test_commands[0]: expected an argument list, such as [make, test], got 'make'"),
        ("test_commands: [[make, 1]]", ".test_commands[0].command[1]: expected text, got 1; put it in quotes"),
        ("exact_output: [{command: [make], expect: x}]", ".exact_output[0].command: [make] is not in "
         "allowed_commands (did you mean [make, test]?)"),
        ("exact_output: [{expect: x}]", ".exact_output[0]: expected exactly one of 'path', 'url' and 'command', "
         "got none"),
        ("exact_output: [{expect: x, path: a, url: 'http://localhost/'}]", ".exact_output[0]: expected exactly one of "
         "'path', 'url' and 'command', got path and url"),
        ("file_checks: [{path: ../a}]", ".file_checks[0].path: '../a' must be a path inside the project's folder: "
         "relative, without '..'"),
        ("file_checks: [{path: /etc/passwd}]", ".file_checks[0].path: '/etc/passwd' must be a path inside the "
         "project's folder: relative, without '..'"),
        ("file_checks: [{path: a, exists: false, contains: x}]", ".file_checks[0].contains: has no meaning with "
         "exists: false"),
        ("http_checks: [{url: 'http://example.org/'}]", ".http_checks[0].url: the host 'example.org' is neither a "
         "loopback address nor in allowed_hosts"),
        ("start: [serv], http_checks: [{url: 'http://[::1]:80/'}]", ".start: [serv] is not in allowed_commands "
         "(did you mean [serve]?)"),
        ("start: [serve]", ".start: starts a server, but no check has a URL"),
        ("ready_within: 3", ".ready_within: has a meaning only with 'start'"),
        ("http_check: []", ".http_check: unknown key (did you mean 'http_checks'?)"),
    ],
)  # fmt: skip
def test_a_check_that_can_not_be_made_is_a_fault(tmp_path: Path, keys: str, expected: str) -> None:
    assert profile(tmp_path, keys) == [expected.removeprefix(".")]


def test_all_faults_of_a_file_come_at_once_and_the_sound_maids_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "maid_registry.yml"
    path.write_text(
        "maids:\n"
        "  - {maid_id: a, kind: script, command_template: [x]}\n"
        "  - {maid_id: a, kind: script, command_template: [x]}\n"
        "  - {maid_id: b, kind: script, command_template: [x], role: 5}\n"
        "  - {maid_id: c, kind: goose}\n"
        "  - text\n"
        "project_roots: [work, ~nobody-here/x, /srv]\n"
        "allowed_commands: [[], [a, 1]]\n"
        "allowed_hosts: ['http://x']\n"
        "project_root: /x\n"
    )
    registry, problems = read_maids_file(path, cwd=tmp_path)
    assert [found.maid_id for found in registry.maids] == ["a", "c"]
    text = "\n".join(map(str, problems))
    assert "maid_registry.yml:3: maid_id: the maid 'a' is already defined at maid_registry.yml:2" in text
    assert "maid_registry.yml:4: role: expected text, got 5; put it in quotes" in text
    assert "maid_registry.yml:6: maids[4]: expected a mapping, got text" in text
    assert "maid_registry.yml:8: allowed_commands[1][1]: expected text, got 1; put it in quotes" in text
    assert "maid_registry.yml:9: allowed_hosts[0]" in text
    assert "maid_registry.yml:10: project_root: unknown key (did you mean 'project_roots'?)" in text


def test_relative_and_unknown_project_roots_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, SCRIPT, "project_roots: [work, ~nobody-here/x, /srv]\n") == [
        "1: project_roots[0]: 'work' is relative; write an absolute path, or one that begins with ~",
        "1: project_roots[1]: the home folder of '~nobody-here/x' is not known",
    ]


@pytest.mark.parametrize("host", ["a:80", "http://a", "a/b", "*.a", "", "[::1]"])
def test_an_allowed_host_is_a_host_alone(tmp_path: Path, host: str) -> None:
    expected = f"expected a host alone, such as 'build.example' or '10.0.0.7', got {host!r}"
    assert faults(tmp_path, SCRIPT, f"allowed_hosts: ['{host}']\n") == [f"1: allowed_hosts[0]: {expected}"]
    assert load(tmp_path, "allowed_hosts: ['fd00::7', 10.0.0.7, b.example]").allowed_hosts[0] == "fd00::7"


@pytest.mark.parametrize(
    "url",
    ["ftp://127.0.0.1/", "http://0.0.0.0/", "http://127.0.0.1@evil.example/", "http://127.1/", "http://2130706433/",
     "http://127.0.0.1\\@evil.example/", "http://localhost.evil.example/", "http://127.0.0.1:99999/", "http://[::1/",
     "http:///x", "//127.0.0.1/", "http://10.0.0.1/", "http://u:p@localhost/", "http://127.0.0.1/\n", "x"],
)  # fmt: skip
def test_a_url_that_could_leave_this_machine_is_refused(url: str) -> None:
    assert url_fault(url, ["build.example"])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "https://127.9.9.9:1/a?b#c",
        "http://[::1]:80/",
        "http://LOCALHOST/",
        "http://BUILD.example/",
    ],
)
def test_a_url_of_this_machine_or_an_allowed_host_is_taken(url: str) -> None:
    assert url_fault(url, ["Build.example"]) is None


def test_what_a_caller_expects_is_read_under_the_same_rules(tmp_path: Path) -> None:
    allowed = Allowed([("make", "test")], [], tmp_path)
    good: dict[str, Any] = {"file_checks": [{"path": "a"}], "test_commands": [["make", "test"]]}
    found, none = read_profile(good, allowed)
    assert found.file_checks == (FileCheck("a"),) and none == ()
    found, wrong = read_profile({"test_commands": [["make", "all"]], "file_check": []}, allowed)
    assert found.is_empty and wrong == ("file_check: unknown key (did you mean 'file_checks'?)",)
    assert read_profile({"test_commands": [["rm", "-rf", "/"]]}, allowed)[1] == (
        "test_commands[0]: [rm, -rf, /] is not in allowed_commands",
    )


def test_whatever_stands_in_the_place_of_a_value_the_file_loads_or_names_its_fault(tmp_path: Path) -> None:
    whole = yaml.safe_load(GOOD)
    whole["allowed_hosts"] = ["build.example"]
    whole["maids"][0] |= {"endpoint": {"base_url": "https://h/v1"}, "variables": {"A": "b"}, "limits": {"tokens": 3}}
    path = tmp_path / "maid_registry.yml"
    odd: tuple[Any, ...] = (None, True, "\0", -1, "{x", [[]], "http://[", {"path": 1}, "")
    for number, place in enumerate(_places(whole)):
        path.write_text(json.dumps(_put(whole, place, odd[number % len(odd)])))
        try:
            load_maids_file(path, cwd=tmp_path)
        except ConfigError as error:
            assert all("\n" not in str(problem) and "Entry" not in str(problem) for problem in error.problems)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _put(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(whole)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def test_what_is_not_committed_and_how_many_run_at_once_can_be_set(tmp_path: Path) -> None:
    plain = "maids:\n  - {maid_id: a, kind: script, command_template: [tool]}\n"
    found = load(tmp_path, plain)
    assert found.most_at_once == 4 and found.maids[0].include_uncommitted
    found = load(tmp_path, plain.replace("[tool]}", "[tool], include_uncommitted: false}") + "most_at_once: 2\n")
    assert found.most_at_once == 2 and not found.maids[0].include_uncommitted
    for wrong in ("0", "33", "true", "'2'"):
        _, problems = read_maids_file(_written(tmp_path, plain + f"most_at_once: {wrong}\n"), cwd=tmp_path)
        assert [problem.key for problem in problems] == ["most_at_once"]


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "maid_registry.yml"
    path.write_text(text, "utf-8")
    return path
