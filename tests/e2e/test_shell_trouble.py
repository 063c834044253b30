"""The command line when the server is away, dies in between, or doesn't know the caller."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.orders import call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.shell import command, shell


@contextmanager
def running(server: ButlerServer, *args: str) -> Iterator[subprocess.Popen[str]]:
    """One command while it runs."""
    process = subprocess.Popen(
        command(*args), cwd=server.home, env=server.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.parametrize("arguments", [["approvals"], ["approve", "ABCDE"], ["deny", "ABCDE"], ["grants"], ["threads"]])
def test_without_a_server_it_ends_with_5_and_says_how_to_start_one(
    make_butler: MakeButler, arguments: list[str]
) -> None:
    done = shell(make_butler(with_model=False), *arguments, BUTLER_URL="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (5, "")
    assert "butler serve" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_was_killed_is_named_by_its_last_address(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False).start()
    server.kill()
    done = shell(server, "approvals")
    assert done.returncode == 5
    assert server.url in done.stderr


def test_a_wrong_token_ends_with_4_and_is_not_repeated(butler: ButlerServer) -> None:
    done = shell(butler, "approvals", BUTLER_TOKEN="wrong-token-of-nobody")
    assert (done.returncode, done.stdout) == (4, "")
    assert "BUTLER_TOKEN" in done.stderr
    assert "wrong-token-of-nobody" not in done.stderr


def test_what_the_variables_say_may_stand_in_the_env_file(make_butler: MakeButler, butler: ButlerServer) -> None:
    other = make_butler(with_model=False)
    (other.home / ".env").write_text(f"BUTLER_URL={butler.url}\nBUTLER_TOKEN={butler.env['BUTLER_OWNER_TOKEN']}\n")
    assert shell(other, "threads").returncode == 0


def test_an_address_that_is_no_butlers_is_told(butler: ButlerServer, model: ScriptedModel) -> None:
    done = shell(butler, "approvals", BUTLER_URL=model.url.removesuffix("/v1"))
    assert done.returncode == 5
    assert "no Butler" in done.stderr


def test_a_server_that_dies_on_the_way_leaves_the_question_open_and_asking_again_is_safe(
    make_butler: MakeButler,
) -> None:
    server = make_butler().start(BUTLER_CRASH_AT="decision_after")
    text = fresh("lost")
    one = park(server.client(), text)["approvals"][0]
    done = shell(server, "approve", one["action_id"])
    assert server.died() == -9
    assert (done.returncode, done.stdout) == (5, "")
    assert "may have been carried out or not" in done.stderr
    server.start()
    again = shell(server, "approve", one["action_id"])
    assert again.returncode == 5
    assert "approved by owner" in again.stderr
    server.client().when_run(one["run_id"], "done")
    assert len(server.workshop.effects(text)) == 1


def test_waiting_goes_on_over_a_restart_and_tells_of_a_call_of_unknown_fate(make_butler: MakeButler) -> None:
    server = make_butler().start()
    text = fresh("cut-off")
    [one] = server.client().chat(call("slow_line", text))["approvals"]
    with running(server, "approve", one["code"]) as process:
        assert process.stderr is not None
        assert "waiting until it has run" in process.stderr.readline()
        wait_until(lambda: server.workshop.begun(text), "it runs")
        server.restart()
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 3
    assert "may or may not have taken effect" in said
    waiting = shell(server, "approvals", "show", one["action_id"])
    assert "careful" in waiting.stdout
    [again] = server.client().approvals(one["thread_id"])
    assert shell(server, "respond", again["code"], "it was written").returncode == 0


def test_where_two_must_agree_the_first_ends_with_3(make_butler: MakeButler) -> None:
    server = make_butler()
    rule = {"name": "two-of-us", "tool": "append_line", "verdict": "approve", "reason": "Two see more"}
    server.workshop.write_policy({**rule, "approvals_needed": 2})
    server.start()
    second = {"BUTLER_TOKEN": str(server.user_add("bob", "admin").token)}
    text = fresh("both")
    one = park(server.client(), text)["approvals"][0]
    first = shell(server, "approve", one["code"])
    assert first.returncode == 3, first.stderr
    assert "approved by 1 of 2; it waits for the others" in first.stdout
    assert server.workshop.effects(text) == []
    assert "needs       2 people; approved so far by owner" in shell(server, "approvals").stdout
    assert shell(server, "approve", one["code"]).returncode == 5
    done = shell(server, "approve", one["code"], **second)
    assert (done.returncode, len(server.workshop.effects(text))) == (0, 1), done.stderr
