"""Completion in a real bash: commands, options, and ids of the running server; silence where there is none (E1)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

import pytest

from tests.support.client import Client
from tests.support.orders import fresh, park
from tests.support.server import ButlerServer
from tests.support.shell import shell

DETECT = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}


@cache
def script_of(kind: str, server: ButlerServer) -> str:
    """The script that teaches a shell."""
    return shell(server, "--show-completion", kind, **DETECT).stdout


def completed(server: ButlerServer, line: str, **env: str) -> list[str]:
    """What bash would offer for the last word of a line; there may be nothing on standard error."""
    script = script_of("bash", server)
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    typed = (
        f'butler() {{ "{sys.executable}" -m service.cli "$@"; }}\n'
        # The script starts the command by its name through `env`, which knows no functions.
        f"{script.replace('$1 )', f'{sys.executable} -m service.cli )')}\n"
        f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n"
        "_butler_completion butler\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc"], input=typed, text=True, capture_output=True, cwd=server.home, env=server.env | env,
        timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [word for word in done.stdout.splitlines() if word]


pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="it is about bash")


def test_commands_codes_and_threads_are_offered(butler: ButlerServer, owner: Client) -> None:
    one = park(owner, fresh("offered"))["approvals"][0]
    assert completed(butler, "butler thr") == ["threads"]
    assert one["code"] in completed(butler, "butler approve ")
    assert completed(butler, f"butler approve {one['code'][:3]}") == [one["code"]]
    assert completed(butler, f"butler threads show {one['thread_id'][:9]}") == [one["thread_id"]]


def test_maids_of_the_folder_are_offered_without_a_server(butler: ButlerServer) -> None:
    (butler.config / "maid_registry.yml").write_text(
        "maids:\n  - {maid_id: tidy_one, kind: script, label: T, role: format, command_template: [tidy]}\n"
    )
    try:
        assert completed(butler, "butler maids evaluate ", BUTLER_URL="http://127.0.0.1:9") == ["tidy_one"]
    finally:
        (butler.config / "maid_registry.yml").unlink()


@pytest.mark.parametrize("env", [{"BUTLER_URL": "http://127.0.0.1:9"}, {"BUTLER_PORT": "none"}])
def test_without_a_server_or_with_wrong_settings_nothing_is_offered_and_nothing_said(
    butler: ButlerServer, env: dict[str, str]
) -> None:
    assert completed(butler, "butler approve ", **env) == []


@pytest.mark.parametrize(("kind", "sign"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete --comm")])
def test_scripts_for_three_shells_are_shown(butler: ButlerServer, kind: str, sign: str) -> None:
    assert sign in script_of(kind, butler)


def test_titles_that_others_wrote_bring_no_signs_into_the_shells_eval(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat("'); touch /tmp/x; $(id) `id` \"; [bold]title")["thread_id"]
    shown = shell(
        butler, _BUTLER_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=f"butler threads show {thread[:13]}"
    ).stdout
    assert "bold title" in shown
    assert not set(shown.partition(thread)[2]) & set("$`;[]<>|&\\")


def test_labels_of_a_folders_files_bring_no_signs_into_the_shells_eval(butler: ButlerServer) -> None:
    label = "\\\\$(touch here) `id` [bold]tidy"
    (butler.config / "maid_registry.yml").write_text(
        f'maids:\n  - {{maid_id: tidy_one, kind: script, label: "{label}", role: format, command_template: [tidy]}}\n'
    )
    try:
        shown = shell(butler, _BUTLER_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="butler maids evaluate ").stdout
    finally:
        (butler.config / "maid_registry.yml").unlink()
    assert "touch here" in shown
    assert not set(shown.partition("tidy_one")[2]) & set("$`;[]<>|&\\")
