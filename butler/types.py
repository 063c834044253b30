"""Plain types shared by the faculties: tools, rulings, model replies. JSON inside, frozen outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sqlalchemy import Connection

Json = dict[str, Any]
Verdict = Literal["allow", "approve", "refuse"]
Risk = Literal["safe", "dangerous", "cross_hub", "forbidden"]


@dataclass(frozen=True)
class Invocation:
    """One execution of a tool; `action_id` is the idempotency key (A8)."""

    action_id: str
    tool: str
    args: Json
    thread_id: str
    run_id: str
    requested_by: str


@dataclass(frozen=True)
class ToolResult:
    """What a tool gave back: text for the model, and whether it is an error."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Occasion:
    """A call as a tool's own ruling sees it; `asked_at` is when it was proposed."""

    connection: Connection
    args: Json
    thread_id: str
    asked_at: str


OwnRuling = Callable[[Occasion], str | None]
"""Why a call that the tool itself allows has to be asked about after all; None when it has not."""
Obstacle = Callable[[Occasion], str | None]
"""Why a call can't be carried out now, whoever says yes; None when it can."""
ToolRunner = Callable[[Invocation], Awaitable[ToolResult]]


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model, the policy and the ledger see it (A2).

    `verdict` is the tool's own default, used when no policy rule and no grant speaks; None means it has none.
    `source` names where it was defined, as ``FILE:LINE``. `digest` is a SHA-256 over all of it but its verdict.
    `secret_args` are the names of arguments whose values are masked wherever they are shown.
    `plain_argument` takes the words after /NAME. `own_ruling` may ask where `verdict` allows; never the other way.
    `verdict_for` gives the default verdict from the arguments, in place of `verdict`. Not `offered`: it is nobody's to
    call, the house itself asks about it. Not `editable`: its arguments are what has happened, so nobody changes them.
    `resumable`: after a crash whoever started it goes on. `typed_args` are for people, never for the model.
    `obstacle` refuses a call before anybody is asked, and again when it is about to run.
    """

    name: str
    description: str
    input_schema: Json
    run: ToolRunner
    governed: bool
    source: str
    digest: str
    verdict: Verdict | None = None
    idempotent: bool = False
    secret_args: frozenset[str] = field(default_factory=frozenset)
    plain_argument: str = ""
    own_ruling: OwnRuling | None = None
    verdict_for: Callable[[Json], Verdict] | None = None
    offered: bool = True
    editable: bool = True
    resumable: bool = False
    typed_args: frozenset[str] = field(default_factory=frozenset)
    obstacle: Obstacle | None = None


@dataclass(frozen=True)
class Ruling:
    """A verdict and why: the answer of the classifier (A3).

    `rule` is the winning policy rule's name, ``grant:ID`` for a grant, or ``default``.
    `deciders` None means the standard ones: admins, and the requester if the requester is an admin.
    `expires_in` is in seconds; None means the request never expires. `matched` names every rule that matched.
    `approvals_needed` different people have to approve. After `escalate_after` seconds `escalate_to` may decide too.
    """

    verdict: Verdict
    rule: str
    reason: str
    risk: Risk
    deciders: tuple[str, ...] | None = None
    expires_in: float | None = None
    matched: tuple[str, ...] = ()
    approvals_needed: int = 1
    escalate_after: float | None = None
    escalate_to: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProposedCall:
    """A tool call as the model wrote it; `arguments` is raw JSON text and may be malformed."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Usage:
    """Tokens and calls of one or more model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0


@dataclass(frozen=True)
class ModelReply:
    """One finished answer of the model: text, calls and usage."""

    text: str
    calls: tuple[ProposedCall, ...]
    usage: Usage
    finish_reason: str
    model: str


class CutText(str):
    """The text of a hidden call that ended at its length limit: there would have been more."""

    __slots__ = ()


ChatMessage = Mapping[str, Any]
"""A message in the OpenAI chat format: role, content, and tool_calls or tool_call_id where they apply."""
