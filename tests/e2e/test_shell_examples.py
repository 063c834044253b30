"""The examples of docs/shell.md, typed as they stand."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.client import Client
from tests.support.orders import fresh, park
from tests.support.server import ROOT, ButlerServer

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_shell_page_do_what_it_says(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh("first"), fresh("second")]
    approvals = [park(owner, text)["approvals"][0] for text in texts]
    blocks = BLOCK.findall((ROOT / "docs" / "shell.md").read_text("utf-8"))
    assert len(blocks) == 4
    script = f'set -e\nbutler() {{ "{sys.executable}" -m service.cli "$@"; }}\n' + "".join(blocks)
    done = subprocess.run(
        ["sh"], input=script, text=True, capture_output=True, cwd=butler.home, env=butler.env, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(approval["fingerprint"] in done.stdout for approval in approvals)
    assert f"wrote {texts[0]}" in done.stdout
    assert [len(butler.workshop.effects(text)) for text in texts] == [1, 0]
