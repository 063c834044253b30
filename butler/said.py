"""What a person typed, as transcript and titles keep it: without the values of secret arguments (F2)."""

from __future__ import annotations

from butler.canonical import canonical_json
from butler.commands import CommandError, parse_tool_command
from butler.exactjson import loads_exactly
from butler.redact import MASK, mask_args
from butler.tools.registry import ToolRegistry


def kept(text: str, tools: ToolRegistry) -> str:
    """The text itself, unless it is a command that may hold a tool's secret argument."""
    if not text.startswith("/"):
        return text
    name, code, *_ = [*text[1:].split(None, 2), "", ""]
    spec = tools.get(name)
    if spec is None:
        names = {secret for tool in tools.specs() for secret in tool.secret_args} if name == "edit" else set()
        return f"/edit {code} {MASK}" if any(secret in text for secret in names) else text
    if not spec.secret_args:
        return text
    try:
        args = loads_exactly(parse_tool_command(text, tools)[1])
    except CommandError:
        # What can't be read may hold a secret anywhere.
        return f"/{name} {MASK}"
    return f"/{name} {canonical_json(mask_args(spec, args))}" if spec.secret_args & args.keys() else text
