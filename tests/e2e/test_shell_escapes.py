"""What models, people and the files of a folder say never reaches a terminal as control or direction marks (A7)."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.client import Client
from tests.support.orders import fresh
from tests.support.server import ButlerServer
from tests.support.shell import Terminal, shell

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[200~rm\x1b[201~\x9b31m\u202egnp\u2066x\u200bz\u2028q\x08\x7f"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture(scope="module")
def said(shared_butler: ButlerServer) -> dict[str, str]:
    """Ids of things that are full of escape sequences: a parked call, a rejected one, a thread, a memory."""
    owner = shared_butler.client()
    parked, rejected = (
        owner.chat(f"[[call append_line {json.dumps({'text': fresh('x') + EVIL})}]]")["approvals"][0] for _ in "ab"
    )
    shell(shared_butler, "deny", rejected["code"], "--reason", EVIL)
    owner.chat(f"/remember that {EVIL}")
    return {
        "parked": parked["action_id"], "code": parked["code"], "rejected": rejected["action_id"],
        "thread": owner.chat(f"{EVIL} [[say so {EVIL}]]")["thread_id"], "evil": EVIL,
    }  # fmt: skip


COMMANDS = [
    "approvals --all", "approvals show {rejected}", "approvals show {evil}", "grants preview {code}",
    "threads", "threads show {thread}", "threads search that", "threads show {evil}", "memory list", "memory export",
    "memory export --ndjson", "memory forget {evil}", "audit show {rejected}", "maids show {evil}",
    "maids route {evil}", "policy test {evil} {{}}", "user token create {evil}", "chat --json {evil}",
    "chat --events /approvals", "chat /approvals", "approve {code} --args {evil}",
]  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_prints_controls_or_direction_marks(
    line: str, butler: ButlerServer, owner: Client, said: dict[str, str]
) -> None:
    done = shell(butler, *(word.format(**said) for word in line.split(" ")))
    for shown in (done.stdout, done.stderr):
        assert (found := RAW.search(shown)) is None, repr(shown[max(found.start() - 50, 0) : found.end() + 50])
    assert done.stdout or done.stderr


def test_an_export_of_memories_is_the_same_values(butler: ButlerServer, said: dict[str, str]) -> None:
    exported = json.loads(shell(butler, "memory", "export").stdout)["memories"]
    assert any("\u202egnp\u2066x\u200bz" in one["text"] for one in exported)


def test_an_export_of_the_audit_is_exact_in_a_file_and_harmless_on_a_terminal(
    butler: ButlerServer, said: dict[str, str]
) -> None:
    assert "\u202e" in shell(butler, "audit", "export").stdout
    with Terminal(butler, "audit", "export") as terminal:
        assert terminal.ended() == 0
        shown = terminal.shown
    assert "\\u202e" in shown
    assert RAW.search(shown.replace("\r", "")) is None


def test_an_error_about_a_folders_file_prints_no_controls(butler: ButlerServer) -> None:
    (butler.config / "maid_registry.yml").write_text(f'maids: [{{maid_id: "a", "{EVIL[6:9]}\u202e": 1}}]\n', "utf-8")
    try:
        done = shell(butler, "maids", "check")
    finally:
        (butler.config / "maid_registry.yml").unlink()
    assert done.stderr
    assert RAW.search(done.stdout + done.stderr) is None
