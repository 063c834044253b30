"""What was typed is kept without the values of secret arguments (F2)."""

from __future__ import annotations

import pytest

from butler.said import kept
from tests.support.parts import registry, tool

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "pw": {"type": "string", "writeOnly": True}},
}
TOOLS = registry(tool("set_pw", schema=SCHEMA), tool("note"))


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("/set_pw text=x pw=hunter2", '/set_pw {"pw":"***","text":"x"}'),
        ('/set_pw {"pw": "hunter2"}', '/set_pw {"pw":"***"}'),
        ('/set_pw pw="hunter2', "/set_pw ***"),
        ('/set_pw {"pw": "hunter2"', "/set_pw ***"),
        ("/edit K7QF2 pw=hunter2", "/edit K7QF2 ***"),
    ],
)
def test_a_typed_secret_argument_is_masked_where_the_line_is_kept(typed: str, line: str) -> None:
    assert kept(typed, TOOLS) == line


@pytest.mark.parametrize(
    "typed", ["/set_pw text=x", "/note text=hunter2", "hello pw=x", "/", "/help", "/edit K text=x"]
)
def test_any_other_line_is_kept_as_it_was_typed(typed: str) -> None:
    assert kept(typed, TOOLS) == typed
