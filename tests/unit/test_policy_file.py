"""policy.yml: lists of globs, several approvers and escalation, with faults that name line and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.policy_file import PolicyFile, load_policy_file
from config.problems import ConfigError
from config.published import published_schemas


def load(tmp_path: Path, keys: str) -> PolicyFile:
    """Read a file with one rule; `keys` are more lines of it, from line 4 on."""
    path = tmp_path / "policy.yml"
    lines = "".join(f"    {line}\n" for line in keys.splitlines())
    path.write_text(f"rules:\n  - name: a\n    tool: run\n{lines}")
    schema = Draft202012Validator(json.loads(published_schemas()["policy.schema.json"]))
    policy = load_policy_file(path, cwd=tmp_path)
    assert schema.is_valid(yaml.safe_load(path.read_text()))
    return policy


def test_arguments_are_a_glob_on_the_text_or_a_list_of_globs_on_the_words(tmp_path: Path) -> None:
    [rule] = load(tmp_path, "verdict: allow\nargs: {command: [git, log, '**'], path: 'src/*'}").rules
    assert rule.args == {"command": ("git", "log", "**"), "path": "src/*"}


def test_several_approvers_and_escalation_are_read(tmp_path: Path) -> None:
    keys = "verdict: ask\ndeciders: [ann, bob]\napprovals_needed: 2\nescalate_after: 60\nexpires_in: 61"
    [rule] = load(tmp_path, keys).rules
    assert (rule.approvals_needed, rule.escalate_after, rule.escalate_to) == (2, 60, ("admin",))
    [rule] = load(tmp_path, "verdict: approve\nescalate_after: 60\nescalate_to: [eve]").rules
    assert (rule.approvals_needed, rule.escalate_to) == (1, ("eve",))


@pytest.mark.parametrize(
    "keys",
    [
        "verdict: approve\napprovals_needed: 3",
        "verdict: approve\napprovals_needed: 3\ndeciders: [member]",
        "verdict: approve\napprovals_needed: 2\ndeciders: [requester, ann]",
        "verdict: approve\napprovals_needed: 2\ndeciders: [requester]\nescalate_after: 9\nescalate_to: [ann]",
        "verdict: approve\napprovals_needed: 1\ndeciders: [requester]",
    ],
)
def test_approvers_who_may_be_enough_are_no_fault(keys: str, tmp_path: Path) -> None:
    assert load(tmp_path, keys).rules


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("verdict: allow\nargs:\n  command: []", "6: args.command: an empty list matches nothing"),
        ("verdict: allow\nargs:\n  command: [git, '**', x]", "6: args.command: item 2 of the list: '**' means any"),
        ("verdict: allow\nargs:\n  command: ['**', '**']", "6: args.command: item 1 of the list: '**' means any"),
        ("verdict: allow\nargs:\n  command: [git, 5]", "6: args.command: item 2 of the list: expected text"),
        ("verdict: allow\nargs:\n  command: 5", "6: args.command: expected text, got 5; put it in quotes"),
        ("verdict: allow\nargs:\n  command: {a: b}", "6: args.command: expected text, got a mapping"),
        ("verdict: allow\napprovals_needed: 2", "5: approvals_needed: has a meaning only with verdict 'approve'"),
        ("verdict: deny\nescalate_after: 2", "5: escalate_after: has a meaning only with verdict 'approve'; this "
         "rule's is 'refuse'"),
        ("verdict: refuse\nescalate_to: [ann]", "5: escalate_to: has a meaning only with verdict 'approve'"),
        ("verdict: ask\nescalate_to: [ann]", "5: escalate_to: needs escalate_after"),
        ("verdict: ask\nexpires_in: 1h", "5: expires_in: expected a number of seconds, such as 3600 for an hour"),
        ("verdict: ask\nescalate_after: 60\nexpires_in: 60", "5: escalate_after: must be less than expires_in (60)"),
        ("verdict: ask\nescalate_after: 0", "5: escalate_after: expected greater than 0, got 0"),
        ("verdict: ask\nescalate_after: 9\nescalate_to: [agent]", "6: escalate_to: an 'agent' can never decide"),
        ("verdict: ask\nescalate_after: 9\nescalate_to: []", "6: escalate_to: expected "),
        ("verdict: ask\napprovals_needed: 2\ndeciders: [requester]", "5: approvals_needed: 2 different people have "
         "to approve, but deciders names only one"),
        ("verdict: ask\napprovals_needed: 3\ndeciders: [ann, bob, ann]", "5: approvals_needed: 3 different people "
         "have to approve, but deciders names only 2 of them"),
        ("verdict: ask\napprovals_needed: 11", "5: approvals_needed: expected less than or equal to 10, got 11"),
        ("verdict: ask\napprovals_needed: 0", "5: approvals_needed: expected greater than or equal to 1, got 0"),
        ("verdict: ask\napprovals_neded: 2", "5: approvals_neded: unknown key (did you mean 'approvals_needed'?)"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_a_fault_with_its_line(keys: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, keys)
    [problem] = map(str, caught.value.problems)
    assert problem.startswith(f"policy.yml:{fault}"), problem


@pytest.mark.parametrize("name", ["x\\ny", "\\u202eyx", "\\t"])
def test_a_rules_name_has_no_character_that_can_not_be_seen(name: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(f'rules:\n  - name: "{name}"\n    tool: run\n    verdict: ask\n')
    with pytest.raises(ConfigError) as refused:
        load_policy_file(path, cwd=tmp_path)
    [problem] = refused.value.problems
    assert str(problem).startswith("policy.yml:2: name: ")
    assert "can't be seen" in str(problem)
    assert "\n" not in str(problem)
