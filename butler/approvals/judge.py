"""The one place where a call meets policy and grants: when proposed, when edited, and again when it runs
(A3, A7).
"""

from __future__ import annotations

from sqlalchemy import Connection

from butler.approvals import grants
from butler.approvals.actions import Action
from butler.approvals.calls import Objection, Proposal
from butler.approvals.own_ruling import tightened
from butler.approvals.policy import Policy, safe_classify
from butler.approvals.show import shown_args
from butler.canonical import fingerprint
from butler.clock import stamp
from butler.people import Principal
from butler.redact import Redactor
from butler.tools.registry import ToolRegistry
from butler.types import Json, Occasion, Ruling


class Judge:
    """Rules on calls with the policy and the tools that are configured now."""

    def __init__(self, policy: Policy, tools: ToolRegistry, redactor: Redactor | None = None) -> None:
        self._policy = policy
        self._tools = tools
        self._redactor = redactor or Redactor([])

    def on_proposal(self, connection: Connection, call: Proposal, *, thread_id: str, person: Principal) -> Ruling:
        """The verdict on a call as it is proposed; a grant that decides it is spent in the same transaction."""
        grant = grants.covering(
            connection, call.tool, call.tool_digest, call.args, thread_id=thread_id, user_id=person.user_id
        )
        granted = (grant.grant_id, f"granted by {grant.granted_by}") if grant else None
        occasion = Occasion(connection, call.args, thread_id, stamp())
        ruling = tightened(self._rule(call.tool, call.args, granted), self._tools.get(call.tool), occasion)
        if (
            grant is not None
            and ruling.rule == f"grant:{grant.grant_id}"
            and not grants.use(connection, grant.grant_id)
        ):
            return tightened(self._rule(call.tool, call.args, None), self._tools.get(call.tool), occasion)
        return ruling

    def on_edit(self, action: Action, args: Json) -> tuple[list[str], Ruling]:
        """What is wrong with edited arguments, and how policy rules on them."""
        return self._tools.validate(action.tool, args), self._rule(action.tool, args, None)

    def at_execution(self, connection: Connection, action: Action) -> Objection | None:
        """Why an allowed or approved action must not run as it stands; None when it may."""
        args = action.run_args if action.run_args is not None else action.args
        bound = action.run_fingerprint if action.run_args is not None else action.fingerprint
        if fingerprint(action.tool, args) != bound:
            return Objection("its arguments in the store are not those that were shown; they were altered")
        tool = self._tools.get(action.tool)
        if tool is None:
            return Objection(f"the tool {action.tool!r} no longer exists")
        if problems := self._tools.validate(action.tool, args):
            return Objection(f"the tool's schema no longer accepts these arguments: {'; '.join(problems)}")
        occasion = Occasion(connection, args, action.thread_id, action.requested_at)
        ruling = tightened(self._rule(action.tool, args, self._standing_grant(connection, action)), tool, occasion)
        if ruling.verdict == "refuse":
            return Objection(f"policy now refuses it: {ruling.reason}", ruling)
        if ruling.verdict == "approve" and action.status == "allowed":
            return Objection(f"policy now asks first: {ruling.reason}", ruling)
        return None

    def shown(self, tool: str, args: Json) -> Json:
        """Arguments as the answer to a decision may repeat them: secrets masked."""
        return shown_args(tool, args, self._tools, self._redactor)

    def _standing_grant(self, connection: Connection, action: Action) -> tuple[str, str] | None:
        kind, _, grant_id = action.rule.partition(":")
        if action.status == "allowed" and kind == "grant" and grants.still_stands(connection, grant_id):
            return grant_id, "granted earlier"
        return None

    def _rule(self, tool: str, args: Json, grant: tuple[str, str] | None) -> Ruling:
        spec = self._tools.get(tool)
        return safe_classify(self._policy, tool, args, own_verdict=spec.verdict if spec else None, grant=grant)
