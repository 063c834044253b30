"""`butler chat MESSAGE` and pipes: the reply alone on standard output, the exit status says what came of it (E1)."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.support.client import Client
from tests.support.orders import call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.shell import command, shell


def piped(server: ButlerServer, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `butler chat` with something on its standard input."""
    return subprocess.run(
        command("chat", *args), cwd=server.home, env=server.env, input=text, text=True, capture_output=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_the_reply_alone_is_on_standard_output(butler: ButlerServer, model: ScriptedModel) -> None:
    marker = fresh("once")
    model.reply(text="a *plain* reply\nof two lines", marker=marker)
    done = shell(butler, "chat", marker)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a *plain* reply\nof two lines\n", "")


@pytest.mark.parametrize("args", [(), ("-",)])
def test_the_message_may_come_through_a_pipe(butler: ButlerServer, args: tuple[str, ...]) -> None:
    word = fresh("piped")
    done = piped(butler, f"{word}\n", *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"You said: {word} .")


def test_an_empty_message_is_wrong_usage(butler: ButlerServer) -> None:
    assert shell(butler, "chat").returncode == 2
    assert shell(butler, "chat", " \n").returncode == 2
    assert shell(butler, "chat", "x", "--new", "--thread", "last").returncode == 2


def test_notices_and_tools_are_told_on_standard_error(butler: ButlerServer) -> None:
    text = fresh("noted")
    done = shell(butler, "chat", call("note_line", text))
    assert (done.returncode, done.stdout) == (0, f"done: wrote {text}\n")
    assert f"note_line: wrote {text}" in done.stderr
    assert shell(butler, "chat", call("note_line", text), "--quiet").stderr == ""


def test_a_parked_turn_ends_with_3_and_says_how_to_go_on(butler: ButlerServer, owner: Client) -> None:
    text = fresh("asks")
    done = shell(butler, "chat", call("append_line", text))
    assert (done.returncode, done.stdout) == (3, "")
    [one] = [item for item in owner.get("/approvals")["items"] if item["args"].get("text") == text]
    assert f'text = "{text}"' in done.stderr
    assert one["fingerprint"] in done.stderr
    assert f"butler approve {one['code']}" in done.stderr
    assert shell(butler, "approve", one["code"]).returncode == 0
    shown = shell(butler, "threads", "show", one["thread_id"])
    assert f"done: wrote {text}" in shown.stdout


def test_a_message_to_a_parked_thread_is_kept_or_declines_or_is_refused(butler: ButlerServer, owner: Client) -> None:
    text = fresh("parked")
    thread = park(owner, text)["thread_id"]
    kept = shell(butler, "chat", "first", "--thread", thread)
    assert kept.returncode == 3
    assert "Your message is kept" in kept.stderr
    assert shell(butler, "chat", "no", "--thread", thread, "--if-parked", "reject").returncode == 3
    declined = shell(butler, "chat", "rather not", "--thread", thread, "--if-parked", "decline")
    assert declined.returncode == 0, declined.stderr
    assert butler.workshop.effects(text) == []


def test_last_is_the_thread_that_changed_last(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat(fresh("the last"))["thread_id"]
    said = json.loads(shell(butler, "chat", "more", "--thread", "last", "--json").stdout)
    assert said["thread_id"] == thread


def test_json_is_the_outcome_and_events_are_lines(butler: ButlerServer) -> None:
    word = fresh("json")
    outcome = json.loads(shell(butler, "chat", word, "--json").stdout)
    assert outcome["status"] == "done"
    assert word in outcome["reply"]
    lines = [json.loads(line) for line in shell(butler, "chat", word, "--events").stdout.splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["run", "end"]
    assert "".join(line["data"]["text"] for line in lines if line["event"] == "token") == lines[-1]["data"]["reply"]
    begun = json.loads(shell(butler, "chat", word, "--json", "--no-wait").stdout)
    assert begun["status"] == "running"


def test_a_model_that_fails_ends_with_5_and_an_apology(butler: ButlerServer, model: ScriptedModel) -> None:
    marker = fresh("down")
    model.reply(status=401, marker=marker, times=0)
    done = shell(butler, "chat", marker)
    assert done.returncode == 5
    assert done.stderr.startswith("butler: ")
    model.reset()


@pytest.mark.parametrize(("typed", "status"), [("/approve ZZZZZ", 5), ("/deny", 2), ("/nonsense", 5), ("/help", 0)])
def test_a_command_that_fails_has_the_status_of_its_error(butler: ButlerServer, typed: str, status: int) -> None:
    assert shell(butler, "chat", typed).returncode == status


def test_a_member_who_may_not_decide_ends_with_4(butler: ButlerServer, member: Client) -> None:
    one = park(member, fresh("members"))["approvals"][0]
    done = shell(butler, "chat", f"/approve {one['code']}", BUTLER_TOKEN=str(member.token))
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("variables", "status", "said"),
    [
        ({"BUTLER_URL": "http://127.0.0.1:9"}, 5, "butler serve"),
        ({"BUTLER_TOKEN": "nobody-has-this"}, 4, "BUTLER_TOKEN"),
    ],
)
def test_no_server_and_no_right_are_told(
    butler: ButlerServer, variables: dict[str, str], status: int, said: str
) -> None:
    done = shell(butler, "chat", "hello", **variables)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "nobody-has-this" not in done.stderr


def test_a_reader_that_leaves_ends_it_with_one_line(butler: ButlerServer, model: ScriptedModel) -> None:
    marker = fresh("broken")
    model.reply(text="first second", hold_after=[(1, "more")], marker=marker)
    with subprocess.Popen(
        command("chat", marker), cwd=butler.home, env=butler.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(5) == b"first"
        process.stdout.close()
        model.release("more")
        said = process.stderr.read().decode()
        assert process.wait(60) == 5
    assert said.startswith("butler: nobody reads the reply any more")
    assert said.count("\n") == 1


def test_a_ctrl_c_stops_the_turn(butler: ButlerServer, model: ScriptedModel, owner: Client) -> None:
    marker = fresh("stop")
    model.reply(text="begun and never ended", hold_after=[(1, "never")], marker=marker)
    with subprocess.Popen(
        command("chat", marker), cwd=butler.home, env=butler.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"begun"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 5
    [thread] = [one for one in owner.get("/threads")["items"] if one["title"] == marker]
    assert thread["status"] == "idle"


def test_it_goes_on_over_a_restart_and_says_nothing_twice(make_butler: MakeButler, model: ScriptedModel) -> None:
    server = make_butler().start()
    marker = fresh("restart")
    model.reply(text="alpha beta gamma", hold_after=[(2, "never")], marker=marker)
    model.reply(text="alpha beta gamma", marker=marker)
    with subprocess.Popen(
        command("chat", marker), cwd=server.home, env=server.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(10) == b"alpha beta"
        wait_until(lambda: model.requests(marker), "the model was asked")
        server.restart()
        assert process.stdout.read() == b" gamma\n"
        assert process.wait(60) == 0
