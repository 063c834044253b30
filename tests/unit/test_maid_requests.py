"""A maid's request for a command meets the same rule however the agent writes the command (D10)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from butler.maids.contract import Finished, Launch, PermissionRequest, Watcher
from butler.maids.permissions import asked_args, command_text
from tests.support.headless import says
from tests.support.maid_brain import maid_brain
from tests.support.parts import rule

DELEGATE = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")
NO_RM = rule("no-rm", "maid:*:execute", "refuse", command="rm *")
SHAPES = (
    "rm -rf x",
    "  rm   -rf\tx\n",
    "'rm' -rf x",
    ("rm", "-rf", "x"),
    ("bash", "-lc", "rm -rf x"),
    ("/bin/sh", "-c", " rm  -rf x "),
)


@pytest.mark.parametrize("command", SHAPES)
def test_a_command_is_one_text_in_whatever_shape_it_comes(command: str | tuple[str, ...]) -> None:
    request = PermissionRequest("c", "execute", "Tidy up", command=command, raw_input={"command": "as it was"})
    assert asked_args(request, Path("/tree")) == {"command": "rm -rf x", "input": {"command": "as it was"}}


def test_the_same_wish_is_the_same_whatever_the_agent_numbers_it() -> None:
    def asked(number: int) -> object:
        raw = {"call_id": f"c{number}", "turn_id": number, "started_at_ms": 1000 + number, "path": "a"}
        request = PermissionRequest(str(number), "execute", "t", command="make it", raw_input=raw)
        return asked_args(request, Path("/tree"))

    assert asked(1) == asked(2) == {"command": "make it", "input": {"path": "a"}}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cd x  && rm 'a  b'", "cd x && rm 'a  b'"),
        (("rm", "a b", "$HOME"), "rm 'a b' '$HOME'"),
        ("echo 'never closed", "echo 'never closed"),
        ("rm 'a  b'", "rm 'a  b'"),
        (("python", "-c", "print(1)"), "python -c 'print(1)'"),
    ],
)
def test_what_means_something_else_stays_something_else(command: str | tuple[str, ...], text: str) -> None:
    assert command_text(command) == text


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1))
@example(["sh", "-c", "rm x"])
def test_a_text_that_was_made_from_words_stays_as_it_is_or_is_a_line_for_a_shell(words: list[str]) -> None:
    once = command_text(words)
    assert command_text(once).split() == once.split()


@pytest.mark.parametrize("command", SHAPES[1:5:2], ids=["text", "list"])
async def test_a_rule_against_a_command_refuses_it_in_every_shape(
    tmp_path: Path, command: str | tuple[str, ...]
) -> None:
    answers = []

    async def asks(launch: Launch, watcher: Watcher) -> Finished:
        answers.append(await watcher.permission(PermissionRequest("c", "execute", "Tidy up", command=command)))
        answers.append(await watcher.permission(PermissionRequest("d", "execute", "List", command="ls")))
        return Finished(0)

    async with maid_brain(tmp_path, [asks], says("", DELEGATE), says("ok"), rules=[NO_RM], permission="allow") as house:
        await house.brain.say("please")
        assert answers[:2] == ["reject", "allow"]


async def test_a_command_that_is_not_told_is_asked_about_where_all_others_are_allowed(tmp_path: Path) -> None:
    answers = []

    async def asks(launch: Launch, watcher: Watcher) -> Finished:
        answers.append(await watcher.permission(PermissionRequest("c", "execute", "rm -rf x")))
        return Finished(None, awaits_permission=True)

    async with maid_brain(tmp_path, [asks], says("", DELEGATE), says("ok"), permission="allow") as house:
        await house.brain.say("please")
        assert answers == ["cancel"]
        [waiting] = await house.brain.pending()
        assert waiting.tool == "maid:m:execute" and waiting.args == {"title": "rm -rf x"}
