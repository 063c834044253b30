"""The house's own benign tools: they read and keep what is the person's own, and policy holds for them too (A2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import Connection, text

from butler.canonical import canonical_json
from butler.errors import ButlerError
from butler.tools.registry import Toolset
from butler.types import Invocation, Json, OwnRuling, ToolResult, ToolRunner, ToolSpec

SOURCE = "built-in"
CLOSED_HERE = "This thread belongs to someone else; memory and history stay closed in it."
_CALLER = text(
    """
    SELECT a.requester_id, a.requested_by, t.owner_id, coalesce(r.message, '') AS message
    FROM actions a LEFT JOIN threads t ON t.thread_id = a.thread_id LEFT JOIN runs r ON r.run_id = a.run_id
    WHERE a.action_id = :wanted
    """
)


@dataclass(frozen=True)
class Caller:
    """For whom a built-in tool runs: the owner of the thread, who also asked."""

    user_id: str
    name: str
    typed: bool
    """Whether the person typed the call as a /command."""


def built_in(
    name: str,
    description: str,
    properties: Json,
    required: list[str],
    run: ToolRunner,
    *,
    plain: str = "",
    own_ruling: OwnRuling | None = None,
) -> ToolSpec:
    """A benign tool that is allowed by default; all of them may be repeated without harm after a crash."""
    schema: Json = {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False,
    }  # fmt: skip
    digest = hashlib.sha256(canonical_json({"name": name, "description": description, "schema": schema}).encode())

    async def guarded(call: Invocation) -> ToolResult:
        try:
            return await run(call)
        except ButlerError as error:
            return ToolResult(error.detail, is_error=True)

    return ToolSpec(
        name=name, description=description, input_schema=schema, run=guarded, governed=False, source=SOURCE,
        digest=digest.hexdigest(), verdict="allow", idempotent=True, plain_argument=plain, own_ruling=own_ruling,
    )  # fmt: skip


def benign_toolset(*specs: ToolSpec) -> Toolset:
    """The toolset of these tools."""
    return Toolset(SOURCE, "benign", specs, SOURCE)


def caller_of(connection: Connection, call: Invocation) -> Caller:
    """Whose memory and transcript a call may touch.

    Raises:
        ButlerError: ``forbidden`` in somebody else's thread, where an admin may speak but would leave private
            things behind, and the owner's would come out.
    """
    row = connection.execute(_CALLER, {"wanted": call.action_id}).first()
    if row is None or row.owner_id != row.requester_id:
        raise ButlerError("forbidden", CLOSED_HERE)
    return Caller(row.requester_id, row.requested_by, row.message.startswith("/"))
