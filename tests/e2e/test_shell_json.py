"""`--json` everywhere: one JSON document on success, `{code, detail, …}` on failure (E1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from service.cli.entry import app
from tests.support.client import Client
from tests.support.orders import fresh, park
from tests.support.server import ButlerServer
from tests.support.shell import shell

WITHOUT = {("serve",), ("mcp",)}
"""They run until they are stopped."""


def every_command(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, also of families that do something by themselves."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            if command.invoke_without_command:
                yield (*path, name)
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = [words for words in every_command(typer.main.get_command(app)) if words not in WITHOUT]


def options(words: tuple[str, ...]) -> set[str]:
    """The options of a command."""
    command = typer.main.get_command(app)
    for word in words:
        command = command.get_command(typer.Context(command), word)  # type: ignore[attr-defined]
    return {option for one in command.params for option in one.opts}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_knows_json_and_tells_wrong_usage_in_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    from service.cli import run

    assert "--json" in options(words)
    assert run([*words, "--json", "--no-such-option"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["code"] == "invalid_request"
    assert "no-such-option" in said["detail"]


SUCCESSES = [
    ["approvals"], ["approvals", "show", "{action}"], ["audit", "verify"], ["audit", "show", "{action}"],
    ["audit", "export"], ["chat", "/help"], ["doctor"], ["grants"], ["grants", "list"],
    ["grants", "preview", "{action}"], ["maids", "list"], ["maids", "check"], ["maids", "show"],
    ["memory", "add", "Likes tea", "--user", "owner"], ["memory", "list"], ["memory", "export"],
    ["memory", "erase", "--yes"], ["notify", "list"], ["policy", "test", "append_line", "{{}}"], ["policy", "check"],
    ["threads"], ["threads", "list"], ["threads", "show", "{thread}"], ["threads", "search", "words"],
    ["user", "list"], ["user", "add", "json-user"], ["user", "role", "json-user", "member"],
    ["user", "disable", "json-user"], ["user", "enable", "json-user"], ["user", "token", "list", "json-user"],
    ["user", "token", "create", "json-user"], ["user", "token", "rotate", "json-user"],
    ["user", "token", "revoke", "json-user", "--all"], ["deny", "{action}"], ["threads", "delete", "{thread}"],
]  # fmt: skip


def test_success_is_one_json_document(butler: ButlerServer, owner: Client) -> None:
    one = park(owner, fresh("json"))["approvals"][0]
    names = {"action": one["action_id"], "thread": one["thread_id"]}
    for words in SUCCESSES:
        done = shell(butler, *(word.format(**names) for word in words), "--json")
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert isinstance(json.loads(done.stdout), dict | list), words


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["threads", "show", "nothing"], "not_found", 5),
        (["approvals", "show", "ZZZZZ"], "not_found", 5),
        (["chat", "hello", "--thread", "nothing"], "not_found", 5),
        (["maids", "show", "nothing"], "not_found", 5),
        (["user", "role", "nobody", "admin"], "not_found", 5),
        (["user", "add", "owner"], "invalid_request", 2),
        (["memory", "list", "--user", "nobody"], "not_found", 5),
        (["memory", "erase"], "invalid_request", 2),
        (["audit", "show", "nothing"], "not_found", 5),
        (["policy", "test", "append_line", "{"], "invalid_request", 2),
        (["nonsense"], "invalid_request", 2),
    ],
)
def test_failure_is_a_code_and_a_detail_on_standard_output_and_a_line_beside_it(
    butler: ButlerServer, words: list[str], code: str, status: int
) -> None:
    done = shell(butler, *words, "--json")
    said = json.loads(done.stdout)
    assert (said["code"], done.returncode) == (code, status)
    assert said["detail"]
    assert done.stderr.strip()


def test_without_a_right_the_code_is_that_of_every_face(butler: ButlerServer) -> None:
    done = shell(butler, "threads", "--json", BUTLER_TOKEN="nobody-has-this")
    assert (json.loads(done.stdout)["code"], done.returncode) == ("unauthorized", 4)


def test_a_new_users_token_is_alone_on_the_last_line(butler: ButlerServer) -> None:
    lines = shell(butler, "user", "add", fresh("user"), "--role", "member").stdout.splitlines()
    assert lines[-1] == lines[-1].strip()
    assert butler.client(lines[-1]).get("/me")["role"] == "member"
