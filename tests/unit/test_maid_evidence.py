"""The evidence of an attempt: whole, redacted before it is cut, bounded (D9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.contract import (
    Change,
    CheckResult,
    Diff,
    Failure,
    Finished,
    ProviderTrouble,
    Stop,
    Tokens,
    Verification,
)
from butler.maids.evidence import LIMIT, attempt_evidence, fitted
from butler.redact import Redactor
from config.maid_types import MaidDefinition

SECRET = "sk-very-secret-value"
MAID = MaidDefinition("goose_grok", "cli", "Goose", "openrouter", "grok", "code", ("goose", "run"))
CHECK = CheckResult("command", "make test", "failed", "exit status 0", f"1 failed, key {SECRET}", 1.5)
DIFF = Diff("ab" * 32, f"+key = '{SECRET}'\n", (Change("a.py", "added"),), Path("p"))


def whole(**more: Any) -> dict[str, Any]:
    finished = Finished(
        0, claim=f"All done with {SECRET}", stop_reason="end_turn", stopped=Stop("timeout", "900 s"),
        stdout_tail=more.pop("stdout", "out"), stderr_tail="err", output_bytes=7, tokens=Tokens(10, 20, 3),
        left_behind=2, duration=1.25,
    )  # fmt: skip
    return attempt_evidence(
        MAID, f"prompt {SECRET}", ("goose", "run"), finished,
        verification=Verification("failed", (CHECK,)), failure=Failure("wrong_output", "it failed", CHECK), diff=DIFF,
        permissions=[{"kind": "execute", "title": f"echo {SECRET}", "answer": "reject"}],
        trouble=[ProviderTrouble(429, "slow down", 3.0)], redactor=Redactor([SECRET]), **more,
    )  # fmt: skip


def test_everything_that_was_seen_is_there_and_no_secret() -> None:
    found = whole()
    assert SECRET not in json.dumps(found)
    assert (found["maid_id"], found["model"], found["argv"]) == ("goose_grok", "grok", ["goose", "run"])
    assert (found["exit_code"], found["claim"], found["stopped"]["class"]) == (0, "All done with ***", "timeout")
    assert found["tokens"] == {"input": 10, "output": 20, "requests": 3}
    assert (found["left_behind"], found["duration"], found["diff"]) == (2, 1.25, "+key = '***'\n")
    assert found["checks"][0]["expected"] == "exit status 0" and found["checks"][0]["actual"] == "1 failed, key ***"
    assert found["failure"]["class"] == "wrong_output" and found["failure"]["check"]["name"] == "make test"
    assert found["permissions"][0]["answer"] == "reject" and found["provider_troubles"][0]["status"] == 429
    assert found["changed_files"] == ["a.py"] and "cut" not in found


def test_a_long_part_is_cut_and_it_is_said_and_a_secret_at_the_cut_is_masked_first() -> None:
    found = whole(stdout=SECRET + "x" * (16_384 - 2))
    assert found["stdout_tail"].startswith("**") or found["stdout_tail"].startswith("x")
    assert "secret" not in found["stdout_tail"] and found["cut"]["stdout_tail"].endswith("characters")


def test_a_huge_diff_keeps_its_beginning_and_a_huge_log_its_end() -> None:
    finished = Finished(0, stdout_tail="first" + "x" * 100_000 + "last")
    diff = Diff("ab", "begin" + "y" * 500_000 + "end", (), Path("p"))
    found = attempt_evidence(
        MAID, "p", (), finished, verification=None, failure=None, diff=diff, redactor=Redactor([])
    )  # fmt: skip
    assert found["stdout_tail"].endswith("last") and found["diff"].startswith("begin")
    assert set(found["cut"]) == {"stdout_tail", "diff"}


LEAVES = st.sampled_from(["", "short", "ü" * 700, "x" * 9_000, "\ud800", 5, None])
TREES = st.recursive(LEAVES, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text("ab", max_size=3), one))


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text("abc", max_size=3), TREES, max_size=6), st.sampled_from([1_000, 20_000, LIMIT]))
def test_whatever_it_holds_it_fits_and_the_given_is_not_changed(evidence: dict[str, Any], limit: int) -> None:
    before = json.dumps(evidence)
    found = fitted(evidence, Redactor([]), limit)
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")) <= limit
    assert json.dumps(evidence) == before


def test_many_small_things_are_bounded_too() -> None:
    found = fitted({f"k{n}": [["x" * 100] * 300] * 60 for n in range(2)}, Redactor([]), 50_000)
    assert len(json.dumps(found)) <= 60_000 and found["cut"]
