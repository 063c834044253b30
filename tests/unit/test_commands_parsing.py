"""`/commands` are read by code: exactly what was typed becomes the call, or a sentence says how to type it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.commands import (
    HOUSE_COMMANDS,
    CommandError,
    HouseCommand,
    parse_house_command,
    parse_tool_command,
    usage,
)  # fmt: skip
from butler.types import Json
from tests.support.parts import registry, tool

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
        "loud": {"type": "boolean"}, "tags": {"type": "array"}, "extra": {"type": "object"},
        "either": {"type": ["integer", "null"]}, "mixed": {"type": ["string", "integer"]},
    },
    "required": ["text"],
}  # fmt: skip
TOOLS = registry(tool("note", schema=SCHEMA), tool("append_line"))


def read(text: str) -> Any:
    name, arguments = parse_tool_command(text, TOOLS)
    assert name == "note"
    return json.loads(arguments)


@pytest.mark.parametrize(
    ("typed", "args"),
    [
        ("/note", {}),
        ("/note text=hello", {"text": "hello"}),
        ("/note   text=hello   count=3 ", {"text": "hello", "count": 3}),
        ("/note text='two words'", {"text": "two words"}),
        ('/note text="two \\"words\\""', {"text": 'two "words"'}),
        ("/note 'text=two words'", {"text": "two words"}),
        ("/note text=a=b=c", {"text": "a=b=c"}),
        ("/note text=", {"text": ""}),
        ("/note text=''", {"text": ""}),
        ("/note text=7 mixed=7", {"text": "7", "mixed": "7"}),
        ("/note text=true", {"text": "true"}),
        ("/note count=7 ratio=0.5 loud=true", {"count": 7, "ratio": 0.5, "loud": True}),
        ("/note tags='[1, \"a\"]' either=null", {"tags": [1, "a"], "either": None}),
        ("/note extra='{\"k\": null}'", {"extra": {"k": None}}),
        ("/note count=many loud=yes", {"count": "many", "loud": "yes"}),  # the schema then says what is wrong
        ("/note unknown=7", {"unknown": "7"}),
        ("/note\ntext=hello\ncount=1", {"text": "hello", "count": 1}),
        ("/note\ttext=hello", {"text": "hello"}),
        ("/note text=船", {"text": "船"}),
        ("/note text=#1", {"text": "#1"}),
        ("/note text=$HOME;rm", {"text": "$HOME;rm"}),
        ('/note {"text": "a b", "count": 3}', {"text": "a b", "count": 3}),
        ('/note {"text": "{}"}', {"text": "{}"}),
        ("/note {}", {}),
        ('/note\n{\n "text": "x"\n}', {"text": "x"}),
        ('/note {"text": "' + "x" * 5000 + '"}', {"text": "x" * 5000}),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_the_arguments(typed: str, args: Json) -> None:
    assert read(typed) == args


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/note hello", "'hello' is not of the form key=value. Usage: /note text=… [count=…]"),
        ("/note text=a loud", "'loud' is not of the form key=value"),
        ("/note =a", "'=a' is not of the form key=value"),
        ("/note text=a text=b", "'text' is given twice"),
        ("/note text='open", "Can't read the arguments of /note: No closing quotation. Usage: /note"),
        ("/note text=it's", "No closing quotation"),
        ("/note text=a\\", "No escaped character"),
        ('/note {"text": }', "are not valid JSON"),
        ('/note {"text": "a"} more', "are not valid JSON"),
        ("/note {'text': 'a'}", "are not valid JSON"),
        ("/note [1]", "'[1]' is not of the form key=value"),
    ],
)
def test_a_wrong_form_is_told_with_the_right_one(typed: str, says: str) -> None:
    with pytest.raises(CommandError) as error:
        parse_tool_command(typed, TOOLS)
    assert says in str(error.value) and error.value.code == "invalid_request"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/xyzzy", "There is no command /xyzzy. /help lists them."),
        ("/notes text=a", "There is no command /notes. Did you mean /note?"),
        ("/aprove ABCDE", "There is no command /aprove. Did you mean /approve?"),
        ("/append_lin text=a", "Did you mean /append_line?"),
        ("/", "There is no command /."),
        ("//", "There is no command //."),
        ("/../etc/passwd", "There is no command /../etc/passwd."),
    ],
)
def test_an_unknown_command_is_told_with_the_nearest(typed: str, says: str) -> None:
    with pytest.raises(CommandError) as error:
        parse_tool_command(typed, TOOLS)
    assert says in str(error.value) and error.value.code == "not_found"


NAMES = ["text", "count", "tags", "mixed", "other"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_json_object_arrives_exactly(args: Json) -> None:
    assert read(f"/note {json.dumps(args)}") == args
    assert read(f"/note {json.dumps(args, ensure_ascii=False)}") == args


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_quoted(text: str) -> None:
    assert read(f"/note {shlex.quote('text=' + text)}") == {"text": text}


@settings(deadline=None)
@given(st.text(st.sampled_from("ab=\"'\\{}[]: \n/,1"), max_size=40))
def test_anything_typed_is_either_read_or_refused_with_a_sentence(rest: str) -> None:
    try:
        name, arguments = parse_tool_command(f"/note {rest}", TOOLS)
    except CommandError as error:
        assert str(error)
    else:
        assert name == "note" and isinstance(json.loads(arguments), dict)


def test_deep_json_is_refused_and_crashes_nothing() -> None:
    with pytest.raises(CommandError, match="not valid JSON"):
        parse_tool_command('/note {"a": ' + "[" * 100_000, TOOLS)


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("/help", HouseCommand("help", "")),
        ("/approve ABCDE", HouseCommand("approve", "ABCDE")),
        ("/approve   ABCDE  ", HouseCommand("approve", "ABCDE")),
        ("/deny ABCDE too much, too soon", HouseCommand("deny", "ABCDE too much, too soon")),
        ("/approve\nABCDE", HouseCommand("approve", "ABCDE")),
        ("/approve\tABCDE\n", HouseCommand("approve", "ABCDE")),
        ("/ help", HouseCommand("help", "")),
        ("/new\n", HouseCommand("new", "")),
        ("help", None),
        (" /help", None),
        ("/helpme", None),
        ("/note text=a", None),
        ("/", None),
        ("", None),
        ("say /help", None),
    ],
)
def test_house_commands_are_told_from_all_else(typed: str, command: HouseCommand | None) -> None:
    assert parse_house_command(typed) == command


def test_every_house_command_is_read() -> None:
    asking = {"help", "tools", "approvals", "approve", "deny", "edit", "respond", "compact", "new"}
    assert set(HOUSE_COMMANDS) == asking | {"search", "memory", "undo"}
    for name, line in HOUSE_COMMANDS.items():
        assert parse_house_command(f"/{name}") == HouseCommand(name, "")
        assert line.startswith(f"/{name}")


def test_usage_tells_required_from_optional() -> None:
    assert usage("note", SCHEMA).startswith("/note text=… [count=…] [ratio=…]")
    assert usage("now", {"type": "object"}) == "/now"


def test_a_tool_named_edit_or_respond_keeps_its_command() -> None:
    for name in ("edit", "respond"):
        assert parse_house_command(f"/{name} x", (name,)) is None
    assert parse_house_command("/approve ABCDE", ("approve",)) == HouseCommand("approve", "ABCDE")
