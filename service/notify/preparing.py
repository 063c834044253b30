"""What to say in a queued notification, looked up at the moment of sending; or why there is nothing to say any more."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.show import approval
from butler.people import Principal
from butler.redact import Redactor
from butler.said import kept
from butler.storage import conversations
from butler.tools.registry import ToolRegistry
from service.notify import queue
from service.notify.channels import Channel
from service.notify.links import SignedLinks
from service.notify.messages import approval_message, reply_message
from service.notify.queue import Notification
from service.notify.sender import Message


@dataclass(frozen=True)
class Ready:
    """A message that may go out; `shows` is the action that its reader sees."""

    message: Message
    person: Principal
    shows: str | None


@dataclass(frozen=True)
class Preparer:
    """Turns a queued row into a message."""

    links: SignedLinks
    tools: ToolRegistry
    redactor: Redactor

    def prepare(self, connection: Connection, one: Notification, channel: Channel, limit: int) -> Ready | None:
        """The message; None, with the row marked as dropped, when this person is to hear nothing any more."""
        who = queue.person(connection, one.user_id)
        found: Ready | str
        if who is None or who.name != channel.user:
            found = "this person is gone or disabled"
        elif one.kind == "reply":
            found = self._reply(connection, one, who, limit)
        else:
            found = self._question(connection, one, channel, who, limit)
        if isinstance(found, Ready):
            return found
        queue.close(connection, one.seq, "dropped", found)
        return None

    def _question(
        self, connection: Connection, one: Notification, channel: Channel, who: Principal, limit: int
    ) -> Ready | str:
        action = ledger.get(connection, one.action_id or "")
        if action is None or action.status != "pending" or action.has_expired:
            return "decided, cancelled or expired before it was sent"
        if not action.may_be_decided_by(who):
            return "this person may not decide it any more"
        if any(one["user_id"] == who.user_id for one in action.approved_by or ()):
            return "this person has approved it already"
        link = self.links.issue(connection, action, who) if channel.definition.links else None
        message = approval_message(
            approval(action, self.tools, self.redactor), limit=limit, link=link, name=who.name,
            escalated=one.kind == "escalation",
        )  # fmt: skip
        return Ready(message, who, action.action_id)

    def _reply(self, connection: Connection, one: Notification, who: Principal, limit: int) -> Ready | str:
        run = conversations.get_run(connection, one.run_id or "")
        if run is None:
            return "the thread was deleted before it was sent"
        asked = self.redactor.text(kept(run.message, self.tools))
        shown = {"status": run.status, "message": asked, "reply": run.reply, "error": run.error}
        return Ready(reply_message(shown, limit=limit), who, None)
