"""The toolset of tools.yml: each definition becomes a governed tool (A2, E4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from butler.canonical import canonical_json
from butler.redact import secret_args_of
from butler.tools.command import command_runner
from butler.tools.http_call import http_runner
from butler.tools.registry import Toolset
from butler.types import ToolSpec
from config.tools_file import ToolDefinition


def declared_toolset(definitions: Sequence[ToolDefinition], environ: Mapping[str, str]) -> Toolset:
    """Make tools out of definitions.

    Args:
        environ: the variables in force; tools get those that they name.
    """
    source = definitions[0].source.rpartition(":")[0] if definitions else "tools.yml"
    return Toolset("declared", "governed", [_spec(each, environ) for each in definitions], source)


def _spec(definition: ToolDefinition, environ: Mapping[str, str]) -> ToolSpec:
    runner = command_runner if definition.command else http_runner
    # What the tool does. Its verdict is asked for anew at every call, as the policy's rules are.
    does = {key: value for key, value in definition.declaration.items() if key != "verdict"}
    text = canonical_json({**does, "cwd": str(definition.cwd)})
    return ToolSpec(
        name=definition.name,
        description=definition.description,
        input_schema=definition.input_schema,
        run=runner(definition, environ),
        governed=True,
        source=definition.source,
        digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        verdict=definition.verdict,
        idempotent=definition.idempotent,
        secret_args=secret_args_of(definition.input_schema),
    )
