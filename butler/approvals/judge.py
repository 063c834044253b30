"""The one place where a call meets policy and grants: when proposed, when edited, and again when it runs
(A3, A7).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection

from butler.approvals import grants
from butler.approvals.actions import Action
from butler.approvals.calls import Objection, Proposal
from butler.approvals.entitled import falls_short
from butler.approvals.own_ruling import obstructed, own_verdict, tightened
from butler.approvals.policy import Policy, safe_classify
from butler.approvals.show import shown_args
from butler.canonical import fingerprint
from butler.clock import stamp
from butler.people import Principal
from butler.redact import Redactor
from butler.storage.users import is_shut_out
from butler.tools.registry import ToolRegistry
from butler.types import Json, Occasion, Ruling, ToolSpec

T = TypeVar("T")
NOT_EDITABLE = "they are what has been done, so they can't be changed; reject with the reason instead"


class Judge:
    """Rules on calls with the policy and the tools that are configured now."""

    def __init__(self, policy: Policy, tools: ToolRegistry, redactor: Redactor | None = None) -> None:
        self._policy = policy
        self._tools = tools
        self._redactor = redactor or Redactor([])

    def on_proposal(self, connection: Connection, call: Proposal, *, thread_id: str, person: Principal) -> Ruling:
        """The verdict on a call as it is proposed; a grant that decides it is spent in the same transaction."""
        spec = self._tools.get(call.tool)
        occasion = Occasion(connection, call.args, thread_id, stamp())
        obstacle = obstructed(spec, occasion)
        if obstacle is not None:
            refused = self._rule(call.tool, call.args, None)
            return refused if refused.verdict == "refuse" else obstacle
        bound = grants.bound_to(spec) if spec is not None else ""
        grant = grants.covering(connection, call.tool, bound, call.args, thread_id=thread_id, user_id=person.user_id)
        granted = (grant.grant_id, f"granted by {grant.granted_by}") if grant else None
        ruling = self._tightened(self._rule(call.tool, call.args, granted), spec, occasion)
        if (
            grant is not None
            and ruling.rule == f"grant:{grant.grant_id}"
            and not grants.use(connection, grant.grant_id)
        ):
            return self._tightened(self._rule(call.tool, call.args, None), spec, occasion)
        return ruling

    def on_edit(self, action: Action, args: Json) -> tuple[list[str], Ruling]:
        """What is wrong with edited arguments, and how policy rules on them."""
        spec = self._tools.get(action.tool)
        fixed = [NOT_EDITABLE] if spec is not None and not spec.editable else []
        return fixed or self._tools.validate(action.tool, args), self._rule(action.tool, args, None)

    def at_execution(self, connection: Connection, action: Action) -> Objection | None:
        """Why an allowed or approved action must not run as it stands; None when it may."""
        args = action.run_args if action.run_args is not None else action.args
        bound = action.run_fingerprint if action.run_args is not None else action.fingerprint
        if fingerprint(action.tool, args) != bound:
            return Objection("its arguments in the store are not those that were shown; they were altered")
        tool = self._tools.get(action.tool)
        if tool is None:
            return Objection(self._tools.absence(action.tool) or f"the tool {action.tool!r} no longer exists")
        if problems := self._tools.validate(action.tool, args):
            return Objection(f"the tool's schema no longer accepts these arguments: {'; '.join(problems)}")
        occasion = Occasion(connection, args, action.thread_id, action.requested_at)
        granted = self._standing_grant(connection, action)
        ruling = self._tightened(self._rule(action.tool, args, granted), tool, occasion)
        if ruling.verdict == "refuse":
            return Objection(f"policy now refuses it: {ruling.reason}", ruling)
        if (obstacle := obstructed(tool, occasion)) is not None:
            return Objection(obstacle.reason, obstacle)
        if ruling.verdict == "approve" and action.status == "allowed":
            return Objection(f"policy now asks first: {ruling.reason}", ruling)
        asked = action.status == "approved" or action.requester_role == "agent"
        if not asked and is_shut_out(connection, action.requester_id):
            return Objection(f"{action.requested_by} may not sign in any more, and nobody else has approved it")
        if action.status == "approved" and tool.digest != action.tool_digest:
            return _changed(action, ruling, tool.digest)
        if action.status == "approved" and ruling.verdict == "approve" and falls_short(connection, action, ruling):
            return _stricter(action, ruling)
        return None

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name as it is defined now."""
        return self._tools.get(name)

    def secret_args(self, tool: str, args: Json) -> set[str]:
        """The arguments of a call that must not be shown as they are."""
        shown = self.shown(tool, args)
        spec = self._tools.get(tool)
        secret = set(spec.secret_args) if spec else set()
        return {name for name in args if name in secret or shown.get(name) != args[name]}

    def keeps_asking(self, tool: str, args: Json) -> str | None:
        """The rule that asks about this call, or refuses it, whatever is granted."""
        ruling = self._rule(tool, args, ("", ""))
        return ruling.rule if ruling.verdict != "allow" else None

    def shown(self, tool: str, args: Json) -> Json:
        """Arguments as the answer to a decision may repeat them: secrets masked."""
        return shown_args(tool, args, self._tools, self._redactor)

    def redacted(self, value: T) -> T:
        """Known secrets masked in a text or in JSON."""
        masked: T = self._redactor.json(value)
        return masked

    def _standing_grant(self, connection: Connection, action: Action) -> tuple[str, str] | None:
        kind, _, grant_id = action.rule.partition(":")
        tool = self._tools.get(action.tool)
        digest = grants.bound_to(tool) if tool else ""
        if action.status == "allowed" and kind == "grant" and grants.still_stands(connection, grant_id, digest):
            return grant_id, "granted earlier"
        return None

    def _tightened(self, ruling: Ruling, tool: ToolSpec | None, occasion: Occasion) -> Ruling:
        """The ruling, or a question of the tool itself, unless someone allowed this very tool or these arguments."""
        if tool is None or tool.own_ruling is None or ruling.verdict != "allow":
            return ruling
        kind, _, grant_id = ruling.rule.partition(":")
        meant = (
            not tool.plain_argument or grants.is_narrow(occasion.connection, grant_id, tool.plain_argument)
            if kind == "grant"
            else self._policy.singles_out(ruling, tool.name)
        )
        return ruling if meant else tightened(ruling, tool, occasion)

    def _rule(self, tool: str, args: Json, grant: tuple[str, str] | None) -> Ruling:
        spec = self._tools.get(tool)
        return safe_classify(self._policy, tool, args, own_verdict=own_verdict(spec, args), grant=grant)


def _changed(action: Action, ruling: Ruling, digest: str) -> Objection:
    """Ask again: what was approved is not what the tool would do now."""
    lead = f"The definition of {action.tool!r} has changed since {_approver(action)} approved this"
    why = _asked_anew(action, lead, "runs it as it is defined now")
    if ruling.verdict == "approve":
        return Objection(why, replace(ruling, reason=f"{why} {ruling.reason}"), digest)
    return Objection(why, Ruling("approve", "default", why, "dangerous"), digest)


def _stricter(action: Action, ruling: Ruling) -> Objection:
    """Ask again: those who approved it would not be enough by now."""
    needed = ruling.approvals_needed
    takes = "an approval" if needed == 1 else f"{needed} approvals"
    lead = (
        f"{_approver(action)} approved this, but by now it takes {takes} of {', '.join(ruling.deciders or ['admin'])}"
    )
    why = _asked_anew(action, lead, "runs it again")
    return Objection(why, replace(ruling, reason=f"{why} {ruling.reason}"))


def _approver(action: Action) -> str:
    return str((action.decision or {}).get("by") or "A person")


def _asked_anew(action: Action, lead: str, approving: str) -> str:
    """Why a person is asked again, and what the answers mean where it was started before."""
    if not action.attempts:
        return f"{lead}; nothing has run yet."
    return (
        f"{lead}. It was started before that (attempt {action.attempts}) and may have taken effect. Approve "
        f"{approving}, respond treats it as done with your text as its result, reject gives up."
    )
