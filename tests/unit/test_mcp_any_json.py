"""Whatever JSON a server sends: tools are offered or left out, answers are told or are errors, and nothing raises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from butler.mcp.catalog import SOUND_NAME, catalog_of, spec_of
from butler.mcp.results import tool_result
from butler.tools.registry import ToolRegistry
from butler.tools.validation import compile_schema
from config.mcp_file import McpServerDefinition

SERVER = McpServerDefinition("srv", "mcp.json:2", True, command="x", cwd=Path())
WORDS = st.sampled_from(
    ["type", "text", "image", "resource", "content", "isError", "structuredContent", "name", "a", "inputSchema",
     "object", "properties", "$ref", "#", "#/$defs/a", "$defs", "pattern", "(", "enum", "required", "annotations",
     "description", "data", "mimeType", "uri", "allOf", "items", "additionalProperties", "\u202e", "$id",
     "$anchor", "not", "minimum"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=25
)
SCHEMAS = st.dictionaries(WORDS, ANY, max_size=5).map(lambda schema: {**schema, "type": "object"})
TOOLS = st.fixed_dictionaries(
    {"name": WORDS | st.text(max_size=70)},
    optional={"inputSchema": SCHEMAS | ANY, "description": ANY, "annotations": ANY, "outputSchema": SCHEMAS | ANY},
)


async def nothing(call: Any) -> Any:
    """Is not called."""


@settings(deadline=None, max_examples=100)
@given(st.lists(TOOLS | ANY, max_size=5), ANY)
def test_a_tool_is_offered_in_a_form_that_holds_or_left_out(raws: list[Any], args: Any) -> None:
    catalog = catalog_of(SERVER, raws)
    assert all(one.why and one.name for one in catalog.left_out)
    registry = ToolRegistry(())
    registry.replace([spec_of(SERVER, offer, nothing, lambda occasion: None) for offer in catalog.offers])
    for offer in catalog.offers:
        assert SOUND_NAME.fullmatch(offer.full_name) and offer.verdict == "approve"
        assert all(isinstance(one, str) for one in registry.validate(offer.full_name, args))
    json.dumps(registry.model_schemas(), allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(st.fixed_dictionaries({"content": st.lists(ANY, max_size=4)}, optional={"structuredContent": ANY}) | ANY)
def test_an_answer_is_told_or_an_error(raw: Any) -> None:
    fits = compile_schema({"type": "object", "required": ["a"]})
    for check in (None, fits):
        told = json.loads(tool_result("srv", raw, check).text)
        assert told["server"] == "srv" and (("error" in told) != ("untrusted_result" in told))
