"""An action as people and programs see it: the Approval of the HTTP contract and the interrupt's payload."""

from __future__ import annotations

from typing import Any

from butler.approvals.actions import Action
from butler.canonical import canonical_json
from butler.people import Principal
from butler.redact import Redactor, mask_args
from butler.tools.registry import ToolRegistry
from butler.types import Json

GIVEN_FIELDS = ("by", "at", "via", "reason")


def title_of(tool: str, args: Json) -> str:
    """One line that names the action; the whole arguments stand beside it, so this may be shortened."""
    text = ", ".join(f"{name}={_plain(value)}" for name, value in args.items())
    line = f"{tool}({text})"
    return line if len(line) <= 120 else f"{line[:119]}…"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def approval(action: Action, tools: ToolRegistry, redactor: Redactor) -> Json:
    """The **Approval** of http-api; arguments whole and exact, secrets masked."""
    # What was decided before a crash is in the audit; the pending question has no decision yet.
    decision = dict(action.decision) if action.decision and action.status != "pending" else None
    if decision and decision.get("args") is not None:
        decision["args"] = shown_args(action.tool, decision["args"], tools, redactor)
    # What a person wrote as a reason may hold a secret too.
    decision = redactor.json(decision)
    args = shown_args(action.tool, action.shown_args, tools, redactor)
    title = action.title if args == action.args else title_of(action.tool, args)
    return {
        "action_id": action.action_id, "code": action.code, "thread_id": action.thread_id, "run_id": action.run_id,
        "tool": action.tool, "args": args, "title": redactor.text(title), "reason": action.reason,
        "rule": action.rule, "risk": action.risk, "fingerprint": action.shown_fingerprint,
        "requested_by": action.requested_by, "requested_at": action.requested_at, "expires_at": action.expires_at,
        "allowed_decisions": _allowed(action, tools) if action.status == "pending" else [],
        "status": action.status, "decision": decision, "execution": action.execution, **_shared(action, redactor),
    }  # fmt: skip


def _allowed(action: Action, tools: ToolRegistry) -> list[str]:
    spec = tools.get(action.tool)
    fixed = spec is not None and not spec.editable
    return [one for one in action.allowed_decisions if not (fixed and one == "edit")]


def for_whom(shown: Json, action: Action, person: Principal) -> Json:
    """An Approval with `waits_for`: who may decide it, where that is somebody else than `person`; otherwise None."""
    others = action.status == "pending" and not action.may_be_decided_by(person)
    return {**shown, "waits_for": list(action.waits_for) if others else None}


def _shared(action: Action, redactor: Redactor) -> Json:
    """Who else is asked, and who has approved so far; only where the rule says that more than one person counts."""
    more: Json = {}
    if action.approvals_needed > 1:
        given = action.approved_by or []
        more["approvals_needed"] = action.approvals_needed
        more["approved_by"] = [{key: redactor.json(one.get(key)) for key in GIVEN_FIELDS} for one in given]
    if action.escalate_at is not None:
        more |= {"escalates_at": action.escalate_at, "escalated_at": action.escalated_at}
    return more


def shown_args(tool: str, args: Json, tools: ToolRegistry, redactor: Redactor) -> Json:
    """Arguments with secret values masked."""
    spec = tools.get(tool)
    return redactor.json(mask_args(spec, args) if spec else args)  # type: ignore[no-any-return]


def storable(value: Any) -> Any:
    """JSON for a checkpoint, whose encoding has no integers beyond 64 bits; those become text."""
    if isinstance(value, dict):
        return {name: storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


def interrupt_payload(action: Action, tools: ToolRegistry, redactor: Redactor) -> Json:
    """LangChain's field names with one action per interrupt, so that Studio and Agent Chat UI can show it."""
    shown = approval(action, tools, redactor)
    return {
        "type": "tool_approval",
        "action_requests": [{"name": action.tool, "args": storable(shown["args"]), "description": shown["title"]}],
        "review_configs": [
            {"action_name": action.tool, "allowed_decisions": _allowed(action, tools)},
        ],
        "tool_call_id": action.call_id,
        **{key: shown[key] for key in ("action_id", "reason", "rule", "risk", "fingerprint", "expires_at")},
    }
