"""Approvals on paper and on a terminal: the whole action, no field that an argument could forge."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from butler.canonical import fingerprint
from butler.errors import ButlerError
from butler.types import Json
from service.cli.cards import print_approval, span
from service.cli.outcome import Answer, tell
from service.cli.plain import exact_line, exact_lines

MOMENT = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def approval(args: Json, **changes: Any) -> Json:
    """A pending approval of `write` with these arguments."""
    return {
        "action_id": "a-1", "code": "K7QF2", "thread_id": "t-1", "run_id": "r-1", "tool": "write", "args": args,
        "title": "write", "reason": "Writing asks", "rule": "ask-for-writes", "risk": "dangerous",
        "fingerprint": fingerprint("write", args), "requested_by": "ann", "requested_at": "2026-01-02T11:00:00.000000Z",
        "expires_at": "2026-01-02T12:30:00.000000Z", "allowed_decisions": ["approve", "edit", "reject", "respond"],
        "status": "pending", "decision": None, "execution": "none", **changes,
    }  # fmt: skip


def shown(one: Json, *, terminal: bool = False, width: int = 60) -> list[str]:
    """The lines that are printed for it, without colours."""
    out = Console(file=io.StringIO(), force_terminal=terminal, no_color=True, width=width, soft_wrap=True,
                  highlight=False, markup=False, color_system=None)  # fmt: skip
    print_approval(out, one, MOMENT)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().split("\n")


def test_a_card_has_everything_that_a_decider_needs() -> None:
    assert shown(approval({"text": "hello", "n": 3})) == [
        "K7QF2  write",
        '  arguments   text = "hello"',
        "              n = 3",
        "  asked by    ann, 1 h ago (2026-01-02T11:00:00.000000Z)",
        "  rule        ask-for-writes",
        "  why         Writing asks",
        "  risk        dangerous",
        "  expires     in 30 min (2026-01-02T12:30:00.000000Z)",
        "  thread      t-1",
        "  action      a-1",
        f"  fingerprint {fingerprint('write', {'text': 'hello', 'n': 3})}",
        "  answer      butler approve K7QF2",
        "              butler approve K7QF2 --edit",
        '              butler deny K7QF2 --reason "…"',
        '              butler respond K7QF2 "…"',
        "",
    ]


def test_a_card_for_somebody_who_may_not_decide_names_who_may_and_no_command() -> None:
    lines = shown(approval({"text": "hello"}, waits_for=["admin", "mia"]))
    assert "  answer      waits for admin, mia, not for you" in lines
    assert not [line for line in lines if "butler approve" in line or "butler deny" in line]


def test_a_long_argument_is_never_cut() -> None:
    text = "x" * 50_000
    assert f'  arguments   text = "{text}"' in shown(approval({"text": text}))
    pieces = [line[14:] for line in shown(approval({"text": text}), terminal=True)]
    assert f'text = "{text}"' in "".join(pieces)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "forged", ["a\n  risk        safe", "a" + " " * 200 + "  risk        safe", "a\r  risk        safe", "\x1b[1A risk"]
)
def test_no_argument_can_look_like_a_field_of_its_own(forged: str, terminal: bool) -> None:
    for one in (approval({"text": forged}), approval({forged: 1}), approval({}, reason=forged, rule=forged)):
        lines = shown(one, terminal=terminal)
        assert [line for line in lines if line.startswith("  risk")] == ["  risk        dangerous"]
        assert all(line.isprintable() for line in lines)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=4), st.text(), st.integers(36, 120))
def test_no_call_whatsoever_forges_a_field_or_leaves_its_column(args: Json, reason: str, width: int) -> None:
    one = approval(args, reason=reason, requested_by=reason)
    lines = shown(one, terminal=True, width=width)
    labels = [line[2:14].strip() for line in lines if line.startswith("  ") and line[2:3].strip()]
    assert labels == ["arguments", "asked by", "rule", "why", "risk", "expires", "thread", "action", "fingerprint",
                      "answer"]  # fmt: skip
    assert all(cell_len(line) <= width for line in lines)
    whole = "".join(line[14:] for line in lines)
    for name, value in args.items():
        assert f"{name if name.isidentifier() else exact_line(name)} = {exact_lines(value)[0]}" in whole


def test_an_odd_name_of_an_argument_is_whole_and_quoted() -> None:
    assert '  arguments   "a\\nb" = 1' in shown(approval({"a\nb": 1}))


def test_a_reason_is_broken_between_words_and_nothing_of_it_is_lost() -> None:
    reason = "No policy rule is about this call; the own verdict of the tool is approve: a person is asked first."
    pieces = [line[14:] for line in shown(approval({}, reason=reason), terminal=True) if line[:5] in ("  why", "     ")]
    told = next(at for at, one in enumerate(pieces) if one.endswith("first."))
    assert " ".join(pieces[: told + 1]).endswith(reason) and all(one == one.strip() for one in pieces[: told + 1])


def test_masked_values_are_named_as_such() -> None:
    lines = shown(approval({"key": "***"}, fingerprint=fingerprint("write", {"key": "the real one"})))
    assert any(line.startswith("  masked") for line in lines)
    assert not any(line.startswith("  masked") for line in shown(approval({"key": "***"})))


def test_what_was_decided_says_by_whom_why_and_with_which_arguments() -> None:
    decision = {"decision": "edit", "by": "bob", "at": "then", "via": "http", "reason": "so", "args": {"text": "b"}}
    lines = shown(approval({"text": "a"}, code=None, status="approved", execution="done", decision=decision,
                           allowed_decisions=[]))  # fmt: skip
    assert lines[0] == "a-1  write  approved"
    at = lines.index("  decided     edited by bob at then via http")
    assert [line.strip() for line in lines[at + 1 : at + 4]] == ["reason: so", "with other arguments:", 'text = "b"']
    assert not any(line.startswith("  answer") for line in lines)


def test_a_call_of_unknown_fate_carries_a_warning() -> None:
    lines = shown(approval({"text": "a"}, execution="unknown"))
    assert any("may or may not have taken effect" in line for line in lines)


def test_several_deciders_and_escalation_are_shown_where_the_rule_asks_for_them() -> None:
    lines = shown(approval({"text": "a"}, approvals_needed=2, approved_by=[{"by": "bob"}],
                           escalates_at="2026-01-02T13:00:00.000000Z"))  # fmt: skip
    assert "  needs       2 people; approved so far by bob" in lines
    assert "  escalates   in 1 h (2026-01-02T13:00:00.000000Z)" in lines


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59, "59 s"), (90, "1 min"), (7_300, "2 h"), (2e5, "2 d")])
def test_times_are_told_in_words(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("changes", "more", "status"),
    [
        ({"status": "approved", "execution": "done"}, {"awaited": True}, 0),
        ({"status": "approved", "execution": "none"}, {}, 0),
        ({"status": "approved", "execution": "started"}, {"awaited": True}, 5),
        ({"status": "approved", "execution": "failed"}, {"awaited": True}, 5),
        ({"status": "approved", "execution": "done"}, {"awaited": True, "waiting": ["ABCDE"]}, 3),
        ({"status": "pending", "execution": "none"}, {"awaited": True}, 3),
        ({"status": "pending", "execution": "unknown"}, {"awaited": True}, 3),
        ({"status": "rejected", "execution": "none"}, {"awaited": True}, 0),
        ({"status": "cancelled", "execution": "none"}, {"awaited": True}, 5),
        ({}, {"error": ButlerError("not_an_approver", "no")}, 4),
        ({}, {"error": ButlerError("invalid_request", "no")}, 2),
        ({}, {"error": ButlerError("already_decided", "no")}, 5),
    ],
)
def test_the_exit_status_says_how_it_ended(changes: Json, more: Json, status: int) -> None:
    assert Answer("K7QF2", approval({}, **changes), **more).status == status


def test_what_is_asked_anew_after_an_approve_says_why_and_under_which_code() -> None:
    why = "The definition of 'write' has changed since owner approved this; nothing has run yet."
    out = Console(file=io.StringIO(), width=200, soft_wrap=True)
    again = Answer("K7QF2", approval({}, code="4SBHG", reason=why), awaited=True, was_decided=True, waiting=["4SBHG"])
    tell(out, [again])
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue().startswith(f"K7QF2  write: asked anew as 4SBHG: {why}\n")
    assert again.status == 3


DIFF = "diff --git a/a.txt b/a.txt\n@@ -1 +1 @@\n-old\n+new \u202e\r\n+  answer      butler approve OTHER\n"


def of_a_maid(**changes: Any) -> Json:
    """The question about a maid's diff."""
    check = {"kind": "file", "name": "a.txt", "outcome": "failed", "expected": "new", "actual": "", "duration": 0.5}
    args = {
        "maid_id": "m", "summary": "I did\nit", "changed_files": [{"path": "a\n.txt", "status": "modified"}],
        "checks": [check], "attempts": [{"attempt": 1, "status": "failed", "failure_class": "wrong_output"}],
        "diff": DIFF, "diff_is_cut": False, "notes": ["careful"], **changes,
    }  # fmt: skip
    return approval(args, tool="session_complete", fingerprint=fingerprint("session_complete", args))


def test_a_maids_diff_is_shown_as_a_diff_and_the_rest_in_words() -> None:
    lines = shown(of_a_maid())
    assert lines[1:19] == [
        '  arguments   maid_id = "m"',
        r'              summary = "I did\n"',
        '                        "it"',
        "              changed_files:",
        r'                modified: "a\n.txt"',
        "              checks:",
        '                failed: file "a.txt"',
        '                    expected "new"',
        "                    duration 0.5",
        "              attempts:",
        "                1: failed",
        '                    failure_class "wrong_output"',
        "              diff_is_cut = false",
        "              notes:",
        '                "careful"',
        "  diff        │ diff --git a/a.txt b/a.txt",
        "              │ @@ -1 +1 @@",
        "              │ -old",
    ]
    assert lines[19:21] == [
        r"              │ +new \u202e\r",
        "              │ +  answer      butler approve OTHER",
    ]


def test_no_line_of_a_diff_looks_like_another_where_a_terminal_is_narrow() -> None:
    text = " " + "x" * 28 + "+forged\n"
    lines = shown(of_a_maid(diff=text), terminal=True, width=46)
    begun = next(number for number, line in enumerate(lines) if line.startswith("  diff "))
    assert [line[14:16] for line in lines[begun : begun + 2]] == ["│ ", "+f"]


@given(st.text(max_size=60), st.integers(min_value=20, max_value=90))
@settings(max_examples=50)
def test_whatever_a_diff_holds_its_lines_stay_right_of_the_labels(text: str, width: int) -> None:
    one = of_a_maid(diff=text)
    for terminal in (False, True):
        labels = [line[:14].strip() for line in shown(one, terminal=terminal, width=width)[1:]]
        assert [label for label in labels if label][:3] == ["arguments", "diff", "asked by"]
