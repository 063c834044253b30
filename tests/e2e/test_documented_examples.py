"""The shell examples of README.md and docs/http.md, typed as they stand at a server with the sample tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.polling import wait_until
from tests.support.server import ROOT, ButlerServer, MakeButler

BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAMPLES = ("tools.yml", "policy.yml")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")


@pytest.fixture
def installed(make_butler: MakeButler) -> ButlerServer:
    """A running server in a folder that looks like the project's: sample tools, data in .butler."""
    server = make_butler()
    for name in SAMPLES:
        shutil.copy(ROOT / "config" / name, server.config / name)
    scripts = server.config / "tools"
    scripts.mkdir(exist_ok=True)
    for script in (ROOT / "config" / "tools").glob("*.py"):
        shutil.copy(script, scripts)
    server.env["BUTLER_DATA_DIR"] = str(server.home / ".butler")
    return server.start()


def typed(document: str, server: ButlerServer) -> str:
    """Type every example that asks the server, in order, into one shell; what it printed."""
    blocks = BLOCK.findall((ROOT / document).read_text("utf-8"))
    script = "".join(block for block in blocks if re.search(r"\bask\b|127\.0\.0\.1:8710/", block))
    script = "set -e\n" + script.replace("http://127.0.0.1:8710", server.url)
    environment = {"PATH": server.env["PATH"], "HOME": str(server.home), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["sh"], input=script, text=True, capture_output=True, cwd=server.home, env=environment, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def statuses(printed: str) -> list[str]:
    """The status of every Outcome among the printed lines; there may be no refused request among them."""
    answers = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [answer for answer in answers if answer.get("type") == "about:blank"] == []
    return [answer["status"] for answer in answers if "reply" in answer]


def journal(home: Path) -> list[str]:
    return (home / "config" / "tools" / "journal.txt").read_text("utf-8").splitlines()


def test_the_examples_of_the_readme_do_what_it_says(installed: ButlerServer) -> None:
    printed = typed("README.md", installed)
    assert statuses(printed) == ["parked", "done", "parked", "done", "done"]
    assert journal(installed.home) == ["Buy milk", "Call Ann"]
    assert "\nBuy milk\n" in printed


def test_the_examples_of_the_http_page_do_what_it_says(installed: ButlerServer) -> None:
    printed = typed("docs/http.md", installed)
    first, good_morning, *decided = statuses(printed)
    assert first == "done"
    assert good_morning in {"running", "done"}
    assert decided == [
        *["parked", "done"] * 5,  # approve, edit, reject, respond, yes or no
        "parked",  # then decided by its id
        *["parked"] * 2,  # then decided together, one approved and one rejected
        "parked",  # then approved with a grant,
        "done",  # which lets the next one run
    ]
    # The last ones were approved without waiting for them.
    lines = ["Buy jam", "Buy milk", "Buy oat milk", "Buy rice", "Buy salt", "Buy tea"]
    wait_until(lambda: sorted(journal(installed.home)) == lines, "the journal to have all lines")
    assert "event: run\n" in printed
    assert printed.count("event: end\n") == 1
    assert "seq,at,event,actor,via" in printed
