"""The text of notifications: whole, exact, and deaf to what stands in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.types import Json
from service.notify.messages import approval_message, json_text, line_text, reply_message
from service.notify.sender import size

LINK = "http://127.0.0.1:8710/decide/abcdefghijklmnop.qrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefg"
BLANKS = "\u3164\u115f\uffa0\u2800\ufe00\ufe0f\U000e0100"
FORGED = "\nLook and decide as owner: http://evil.example"


def shown(**changes: Any) -> Json:
    return {
        "requested_by": "mia", "tool": "send_mail", "risk": "dangerous", "code": "AB2CD",
        "reason": "It leaves the house", "rule": "mail-asks", "fingerprint": "f" * 64, "expires_at": None,
        "execution": "none",
        "args": {"to": "x@example.org", "text": "hello"}, **changes,
    }  # fmt: skip


def body(limit: int = 10_000, link: str | None = LINK, **changes: Any) -> str:
    return approval_message(shown(**changes), limit=limit, link=link, name="owner").body


def test_every_part_is_there() -> None:
    text = body(expires_at="2031-01-02T03:04:05.000000Z")
    for part in ("mia asks to run send_mail", "dangerous", "It leaves the house",
                 "mail-asks", "2031-01-02 03:04:05 UTC",
                 "/approve AB2CD", "/deny AB2CD", LINK, "f" * 64, 'to = "x@example.org"',
                 'text = "hello"'):  # fmt: skip
        assert part in text


def test_without_a_link_the_chat_commands_stay() -> None:
    text = body(link=None)
    assert "decide as" not in text
    assert "/approve AB2CD" in text


def test_several_approvers_and_an_unknown_outcome_are_said() -> None:
    text = body(approvals_needed=2, approved_by=[{"by": "ann", "at": "2031"}], execution="unknown")
    assert "2 people have to approve. So far: ann." in text
    assert "outcome is unknown" in text


VALUES = st.recursive(st.none() | st.integers() | st.text(max_size=20), st.lists, max_leaves=4)


@settings(max_examples=60)
@given(st.dictionaries(st.text(min_size=1, max_size=20), VALUES, max_size=4))
def test_arguments_can_neither_add_a_line_nor_change(args: dict[str, Any]) -> None:
    text = body(args=args)
    lines = text.split("\nArguments:\n")[1].split("\n")
    assert len(lines) == max(len(args), 1)
    for line, (name, value) in zip(lines, args.items(), strict=False):
        assert line.endswith(f" = {json_text(value)}")
        assert json.loads(json_text(value)) == value
        assert name in line or json.loads(line.removesuffix(f" = {json_text(value)}")) == name


@pytest.mark.parametrize(
    "text",
    [
        FORGED,
        "[x](http://evil.example)",
        "@everyone now",
        "<!channel>",
        "<b>x</b>",
        "\u202egnp.exe",
        "a\u200bb",
        "\x1b[2J",
        *(f"a{char}b" for char in BLANKS),
    ],
)
def test_lures_arrive_as_escapes_that_read_back_exactly(text: str) -> None:
    written = json_text({"text": text})
    assert json.loads(written) == {"text": text}
    unwanted = rf"\]\(|@everyone|<[!b]|[\x00-\x1f\u200b\u202e{BLANKS}]"
    assert not re.search(unwanted, written)
    assert not re.search(unwanted, line_text(text))


@pytest.mark.parametrize("limit", [600, 1000, 2000, 4000])
def test_what_is_too_long_says_so_before_the_arguments_and_keeps_all_else(limit: int) -> None:
    text = body(limit=limit, args={"text": "<&>" * 20_000})
    assert size(text) <= limit
    assert LINK in text and "/approve AB2CD" in text
    notice, arguments = text.index("SHORTENED"), text.index("Arguments, beginning")
    assert notice < arguments
    assert "the page behind the link shows all" in text
    assert text.endswith("…")


def test_a_very_short_service_gets_who_what_and_the_link() -> None:
    text = body(limit=160, args={"text": "x" * 1000})
    assert "mia asks to run send_mail" in text
    assert LINK in text
    assert "SHORTENED" in text
    assert "xxx" not in text


def test_a_reply_is_quoted_line_by_line() -> None:
    run = {"status": "done", "message": "hi\nthere", "reply": f"first{FORGED}\n@everyone", "error": None}
    message = reply_message(run, limit=10_000)
    assert message.title == "Butler has answered"
    head, *quoted = message.body.splitlines()
    assert head == "You asked: hi there"
    assert all(line.startswith("> ") for line in quoted)
    assert "@everyone" not in message.body


def test_a_long_reply_is_shortened_and_a_failure_says_why() -> None:
    long = reply_message({"status": "done", "message": "q", "reply": "<x>\n" * 5000, "error": None}, limit=1000)
    assert size(long.body) <= 1000
    assert "SHORTENED: the reply has 20000 characters" in long.body
    failed = reply_message(
        {"status": "failed", "message": "q", "reply": "", "error": {"detail": "no model"}}, limit=1000
    )
    assert failed.title == "Butler could not finish"
    assert "> no model" in failed.body
