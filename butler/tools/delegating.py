"""The tool `delegate`, and what the house itself asks about on a maid's behalf: its permissions, its diff (D1, D10).

None of these runs as a plain tool: the sub-graph of a delegated task carries them out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from butler.canonical import canonical_json
from butler.maids.permissions import KINDS, tool_name
from butler.tools.delegate_schema import DELEGATE_SCHEMA
from butler.tools.registry import Toolset
from butler.types import Invocation, Json, ToolResult, ToolSpec, Verdict
from config.maid_types import MaidDefinition

SOURCE = "maid_registry.yml"
DELEGATE = "delegate"
SESSION_COMPLETE = "session_complete"
DESCRIPTION = (
    "Hand a piece of work on a project's files to a maid: a supervised agent that works in a copy of the project and "
    "is checked by Butler. The person approves the resulting diff before it is applied. Say intent and instruction; "
    "never name a model. Comes back with the outcome, or as not_delegated with the reason."
)
_COMPLETE_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "maid_run_id": {"type": "string"}, "maid_id": {"type": "string"}, "intent": {"type": "string"},
        "project_root": {"type": "string"}, "summary": {"type": "string"},
        "changed_files": {"type": "array", "items": {"type": "object"}},
        "checks": {"type": "array", "items": {"type": "object"}},
        "attempts": {"type": "array", "items": {"type": "object"}},
        "diff": {"type": "string"}, "diff_sha256": {"type": "string"}, "conflicts": {"type": "array"},
        "changed_files_count": {"type": "integer"}, "diff_is_cut": {"type": "boolean"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "changed_outside": {"type": "array", "items": {"type": "string"}},
        "changed_by_checks": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["maid_run_id", "diff", "diff_sha256"],
    "additionalProperties": False,
}  # fmt: skip
_PERMISSION_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "command": {"type": ["string", "array"]}, "paths": {"type": "array", "items": {"type": "string"}},
        "outside": {"type": "array", "items": {"type": "string"}}, "input": {"type": "object"},
        "title": {"type": "string"},
    },
    "additionalProperties": False,
}  # fmt: skip


def delegating_toolset(maids: Iterable[MaidDefinition], verdict_for: Callable[[Json], Verdict]) -> Toolset:
    """`delegate`, `session_complete` and a tool for each kind of request of each maid.

    Args:
        verdict_for: the default verdict on a `delegate` call from its arguments.
    """
    specs = [
        _spec(DELEGATE, DESCRIPTION, DELEGATE_SCHEMA, None, verdict_for=verdict_for, resumable=True,
              typed_args=frozenset({"maid_id"})),
        _spec(SESSION_COMPLETE, "Apply the diff of a delegated task to the project.", _COMPLETE_SCHEMA, "approve",
              offered=False, editable=False, resumable=True),
    ]  # fmt: skip
    for maid in maids:
        for kind in KINDS:
            name = tool_name(maid.maid_id, kind)
            about = f"A request of the maid {maid.label} of the kind {kind}."
            is_blind = kind == "execute" and maid.permission == "allow"
            specs.append(
                _spec(name, about, _PERMISSION_SCHEMA, None if is_blind else maid.permission,
                      verdict_for=_only_known_commands if is_blind else None, offered=False, editable=False)
            )  # fmt: skip
    return Toolset("maids", "governed", specs, SOURCE)


def _only_known_commands(args: Json) -> Verdict:
    """A command that the agent does not tell is asked about: no rule on commands could speak of it."""
    return "allow" if args.get("command") else "approve"


def _spec(
    name: str, description: str, schema: Json, verdict: Verdict | None, *,
    verdict_for: Callable[[Json], Verdict] | None = None, offered: bool = True, editable: bool = True,
    resumable: bool = False, typed_args: frozenset[str] = frozenset(),
) -> ToolSpec:  # fmt: skip
    digest = hashlib.sha256(canonical_json({"name": name, "schema": schema}).encode()).hexdigest()
    return ToolSpec(
        name=name, description=description, input_schema=schema, run=_not_here, governed=True, source=SOURCE,
        digest=digest, verdict=verdict, verdict_for=verdict_for, offered=offered, editable=editable,
        resumable=resumable, typed_args=typed_args,
    )  # fmt: skip


async def _not_here(call: Invocation) -> ToolResult:
    return ToolResult(f"{call.tool} is not run as a tool.", is_error=True)
