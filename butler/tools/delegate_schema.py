"""The arguments of `delegate`; a file of their own, so that `butler mcp` starts without the rest (http-api, *MCP*)."""

from __future__ import annotations

from butler.types import Json

MOST_INSTRUCTION = 50_000

_TEXTS: Json = {"type": "array", "items": {"type": "string", "maxLength": 2000}, "maxItems": 50}
DELEGATE_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "intent": {
            "type": "string", "minLength": 1, "maxLength": 100,
            "description": "What kind of work it is, in one word of the configured intents, such as implement.",
        },
        "instruction": {
            "type": "string", "minLength": 1, "maxLength": MOST_INSTRUCTION,
            "description": "The whole task in plain words: what has to be true afterwards.",
        },
        "project_root": {
            "type": "string", "minLength": 1, "maxLength": 4096,
            "description": "The absolute path of the project, or its name in projects.yml. May be left out where only "
            "one is allowed.",
        },
        "constraints": {**_TEXTS, "description": "What must not happen or change."},
        "expect": {
            "type": "object",
            "description": "What has to be true afterwards, checked by Butler itself: file_checks [{path, exists, "
            "contains}], test_commands [[program, argument]], http_checks [{url, expect_status, expect_body}], "
            "exact_output [{path, expect}].",
        },
        "maid_id": {"type": "string", "minLength": 1, "maxLength": 100, "description": "The maid, named by a person."},
    },
    "required": ["intent", "instruction"],
    "additionalProperties": False,
}  # fmt: skip
