"""The table of failures: the world decides, words only name the cause (D7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.maids.contract import (
    Change,
    CheckResult,
    Diff,
    Failure,
    FailureClass,
    Finished,
    PermissionRequest,
    ProviderTrouble,
    Stop,
    ToolUse,
    Verification,
)
from butler.maids.failures import FAILURES, classify, fingerprint, kind_of, needs_person, same_failure
from butler.maids.forbidden import command_of, forbidden_command
from butler.maids.observation import Observation

EMPTY = Diff("0" * 64, "", (), Path("p"))
CHANGED = Diff("1" * 64, "+x", (Change("a.py", "modified"),), Path("p"))
FILE = CheckResult("file", "out.txt", "failed", "a file", "There is no such file.", 0.0)
TEST = CheckResult("command", "make test", "failed", "exit status 0", "Exit status 1.", 1.0)
FAILED = Verification("failed", (replace(FILE, outcome="passed"), TEST))
PASSED = Verification("passed", (replace(TEST, outcome="passed"),))
ERROR = Verification("error", (replace(TEST, outcome="error", actual="not allowed"),))
UNVERIFIED = Verification("unverified")


def ended(claim: str = "", exit_code: int | None = 0, **more: Any) -> Finished:
    return Finished(exit_code, claim=claim, **more)


def named(finished: Finished, **more: Any) -> str | None:
    seen = {"diff": EMPTY, "verification": FAILED, **more}
    failure = classify(Observation(finished, **seen))
    return failure.failure_class if failure else None


def shell(command: str, output: str = "", status: Any = "completed", call_id: str = "c1") -> ToolUse:
    return ToolUse(call_id, "execute", command, status, raw_input={"command": command}, output=output)


FULL = ProviderTrouble(400, "context_length_exceeded: This model's maximum context length is 8192 tokens.")


def test_every_class_has_one_entry_with_all_that_has_to_be_said() -> None:
    assert sorted(kind.failure_class for kind in FAILURES) == sorted(get_args(FailureClass))
    for kind in FAILURES:
        assert kind.tell.endswith(".") and kind.sentence.endswith(".")
        assert kind.forbid or not (kind.retryable and kind.spends), kind.failure_class
    assert {kind.failure_class for kind in FAILURES if not kind.spends} == {"provider_error", "cancelled"}
    assert {kind.failure_class for kind in FAILURES if not kind.retryable} == {
        "cancelled", "policy_violation", "launch_error", "verifier_error",
    }  # fmt: skip
    assert kind_of("timeout").failure_class == "timeout"


@pytest.mark.parametrize(
    "finished",
    [
        ended(exit_code=1), ended("Shall I proceed?"), ended("Rate limit exceeded"), ended(exit_code=127),
        ended(exit_code=None, stopped=Stop("timeout", "900 s")), ended(stopped=Stop("loop_detected", "4 calls")),
        ended(stop_reason="max_tokens"),
    ],
)  # fmt: skip
def test_work_that_passes_its_checks_is_done_whatever_the_maid_says_or_returns(finished: Finished) -> None:
    assert named(finished, verification=PASSED, diff=CHANGED) is None
    assert named(finished, verification=PASSED, diff=EMPTY, trouble=(ProviderTrouble(500, "x"),)) is None


def test_a_broken_rule_fails_also_what_passes() -> None:
    request = PermissionRequest("c1", "execute", "rm x")
    assert named(ended(), verification=PASSED, outside=("/etc/x",)) == "wrong_directory"
    assert named(ended(stopped=Stop("policy_violation", "again")), verification=PASSED) == "policy_violation"
    assert named(ended(), verification=PASSED, refusals=(request,), tools=(shell("rm x"),)) == "policy_violation"
    refused = shell("rm x", status="failed")
    assert named(ended(), verification=PASSED, refusals=(request,), tools=(refused,)) is None


def test_without_checks_only_what_is_wrong_for_certain_is_a_failure() -> None:
    assert named(ended("I created it.", exit_code=1), verification=UNVERIFIED, diff=CHANGED) is None
    assert named(ended(), verification=UNVERIFIED, diff=EMPTY) == "no_changes"
    assert named(ended("Done!"), verification=UNVERIFIED, diff=EMPTY) == "false_completion"
    assert named(ended(stopped=Stop("timeout", "900 s")), verification=UNVERIFIED, diff=CHANGED) == "timeout"
    assert named(ended(exit_code=3), verification=None, diff=None) == "unknown"


@pytest.mark.parametrize(
    ("finished", "more", "expected"),
    [
        (ended("Work is done, all tests pass."), {}, "false_completion"),
        (ended("I have created out.txt."), {"diff": CHANGED, "verification": Verification("failed", (FILE,))},
         "false_completion"),
        (ended("Here is what I think."), {}, "no_changes"),
        (ended(), {}, "no_changes"),
        (ended("I created a.py."), {"diff": CHANGED}, "wrong_output"),
        (ended("I could not finish."), {"diff": CHANGED}, "wrong_output"),
        (ended("I will edit a.py.\n\nShall I proceed?"), {}, "asked_question"),
        (ended("Please confirm the plan."), {}, "asked_question"),
        (ended("The analysis is completed. Shall I proceed?"), {}, "asked_question"),
        (ended("I have created out.txt. Would you like anything else?"), {}, "false_completion"),
        (ended("要继续吗\uff1f"), {}, "asked_question"),
        (ended("Is it good? I edited it."), {"diff": CHANGED}, "wrong_output"),
        (ended('<tool_call>{"name": "write", "arguments": {}}'), {}, "premature_stop"),
        (ended('{"name": "write", "arguments": {"path": "a"}}'), {}, "premature_stop"),
        (ended("So far", stop_reason="max_tokens"), {"diff": CHANGED}, "premature_stop"),
        (ended("I've reached the maximum number of actions I can do"), {"diff": CHANGED}, "premature_stop"),
        (ended("First part.", plan_left=2), {"diff": CHANGED}, "premature_stop"),
        (ended("- [x] one\n- [ ] two\n"), {"diff": CHANGED}, "premature_stop"),
        (ended("Ran into this error: Server error"), {}, "provider_error"),
        (ended("Rate limit exceeded"), {}, "provider_error"),
        (ended(exit_code=1, stderr_tail="Error: 401 Invalid API key"), {}, "provider_error"),
        (ended("I fixed the network error handling. Done."), {}, "false_completion"),
        (ended(), {"trouble": (ProviderTrouble(429, "slow"),)}, "provider_error"),
        (ended(stopped=Stop("timeout", "silent")), {"trouble": (ProviderTrouble(0, "dead"),)}, "provider_error"),
        (ended(), {"trouble": (FULL,)}, "provider_error"),
        (ended(), {"trouble": (FULL,), "tools": (ToolUse("1", "read", "cat", "completed"),)}, "premature_stop"),
        (ended("All done!"), {"trouble": (ProviderTrouble(500, "x"),), "recovered": True}, "false_completion"),
        (ended(stopped=Stop("hung_foreground", "serve")), {"diff": CHANGED}, "hung_foreground"),
        (ended(stopped=Stop("timeout", "900 s")), {"tools": (shell("serve", status="in_progress"),)},
         "hung_foreground"),
        (ended(stopped=Stop("timeout", "900 s")), {"diff": CHANGED}, "timeout"),
        (ended(stopped=Stop("launch_error", "no such program")), {}, "launch_error"),
        (ended(stopped=Stop("cancelled", "by a person")), {"verification": None}, "cancelled"),
        (ended(awaits_permission=True), {}, "cancelled"),
        (ended(), {"verification": ERROR, "diff": CHANGED}, "verifier_error"),
        (ended("Loop detected, halting."), {}, "loop_detected"),
        (ended(), {"tools": (shell("tree .", "bash: tree: command not found", "failed"),)}, "tool_missing"),
        (ended(), {"tools": (shell("foo", "sh: 1: foo: not found\nexit code: 127", "failed"),)}, "tool_missing"),
        (ended(exit_code=127), {}, "tool_missing"),
        (ended(exit_code=1, stderr_tail="format.py: line 3: black: command not found"), {}, "tool_missing"),
        (ended(), {"diff": CHANGED, "tools": (shell("tree", "tree: command not found", "failed"),
                                              shell("ls", "a.py", call_id="c2"))}, "wrong_output"),
        (ended(), {"tools": (shell("pip install requests", "error", "failed"),)}, "forbidden_action"),
        (ended(), {"outside": ("/elsewhere/a.py",)}, "wrong_directory"),
    ],
)  # fmt: skip
def test_a_failure_is_named_by_its_cause(finished: Finished, more: dict[str, Any], expected: str) -> None:
    assert named(finished, **more) == expected


def test_a_failure_carries_the_first_check_that_failed_and_an_error_the_one_that_could_not_be_made() -> None:
    failure = classify(Observation(ended(), diff=CHANGED, verification=FAILED))
    assert failure is not None and failure.check == TEST and "make test" in failure.detail
    failure = classify(Observation(ended(), diff=CHANGED, verification=ERROR))
    assert failure is not None and failure.check == ERROR.checks[0] and "not allowed" in failure.detail


def test_two_attempts_failed_identically_by_class_check_finding_and_diff() -> None:
    one = Failure("wrong_output", "a", TEST)
    assert same_failure(one, "d", replace(one, detail="b", check=replace(TEST, duration=9.0)), "d")
    timed = Failure("wrong_output", "a", replace(TEST, actual="1 failed in 0.12s"))
    assert same_failure(timed, "d", Failure("wrong_output", "a", replace(TEST, actual="1 failed in 3.40s")), "d")
    assert not same_failure(one, "d", one, "e")
    assert not same_failure(one, "d", replace(one, check=FILE), "d")
    assert not same_failure(one, "d", replace(one, failure_class="false_completion"), "d")
    assert not same_failure(one, "d", replace(one, check=replace(TEST, actual="Exit status 2.")), "d")
    assert fingerprint(Failure("no_changes", ""), None) == fingerprint(Failure("no_changes", "x"), None)


def test_a_task_that_is_longer_than_the_model_takes_needs_a_person() -> None:
    assert needs_person(FULL)
    assert not needs_person(ProviderTrouble(400, "unknown parameter"))


def test_only_key_credit_and_model_need_a_person() -> None:
    assert [status for status in (0, 401, 402, 404, 429, 500, 503) if needs_person(ProviderTrouble(status, ""))] == [
        401, 402, 404,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "pip install x", "python3 -m pip install -r r.txt", "cd a && npm i", "bash -lc 'apt-get update'", "sudo ls",
        ("bash", "-lc", "uv pip install x"), "FOO=1 timeout 5 pip3.11 install x", "yarn", "git -C x push origin",
        "if true; then pip install x; fi", "x=$(pip install y)", ".venv/bin/pip install x", "ls\npip install x",
        ("npm", "install"), "pacman -Sy tree", "cargo add serde", "go get ./...",
    ],
)  # fmt: skip
def test_installing_pushing_and_sudo_are_found(command: str | tuple[str, ...]) -> None:
    assert forbidden_command(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "pip list", "npm test", "npm run install-deps", "echo 'pip install x'", 'git commit -m "add; pip install foo"',
        "cat > R.md <<'EOF'\npip install x\nEOF\nls", "git stash push", "go test ./...", "cargo build", "",
        "a 'unbalanced", (), "pip install --help", "# pip install x", "python -m pytest",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_not(command: str | tuple[str, ...]) -> None:
    assert forbidden_command(command) is None


@given(st.text(alphabet="pip install;&|'\"`$()\\\n#<E ", max_size=60) | st.lists(st.text(max_size=8), max_size=6))
def test_no_text_is_too_odd_to_be_looked_at(command: str | list[str]) -> None:
    forbidden_command(command)
    assert command_of({"command": command}) in (None, command, tuple(command))


@given(st.text(), st.sampled_from([EMPTY, CHANGED, None]), st.sampled_from([FAILED, ERROR, UNVERIFIED, None]))
def test_what_did_not_pass_always_has_a_name_unless_there_was_nothing_to_check(
    claim: str, diff: Diff | None, verification: Verification | None
) -> None:
    failure = classify(Observation(ended(claim), diff=diff, verification=verification))
    assert failure is not None or (verification == UNVERIFIED and diff != EMPTY)
