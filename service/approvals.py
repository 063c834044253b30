"""Reading the inbox: pages of approvals that cost the same however many wait (http-api, *Resume*)."""

from __future__ import annotations

import base64
import binascii
import json

from sqlalchemy import Connection, and_, or_, select

from butler.approvals.actions import Action
from butler.approvals.decide import may_see
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.tables import actions

MOST_CURSOR_CHARACTERS = 300
SHOWN_STATUSES = ("pending", "approved", "rejected", "expired", "cancelled")


def encode_cursor(*values: str) -> str:
    """An opaque place in a list."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, count: int = 2) -> tuple[str, ...]:
    """Raises ButlerError ``invalid_request`` for anything that `encode_cursor` did not write."""
    values: object = None
    if len(cursor) <= MOST_CURSOR_CHARACTERS:
        try:
            text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
            values = json.loads(text) if text.isprintable() and "\\" not in text else None
        except (ValueError, binascii.Error):
            values = None
    if not isinstance(values, list) or len(values) != count or not all(isinstance(one, str) for one in values):
        raise ButlerError("invalid_request", "The cursor is not one that a list gave; leave it out to begin anew.")
    return tuple(values)


def list_approvals(
    connection: Connection,
    person: Principal,
    *,
    status: str | None,
    thread_id: str | None,
    limit: int,
    cursor: str | None,
) -> tuple[list[Action], str | None]:
    """One page, oldest first, of the approvals that `person` may see, and the cursor of the next page."""
    query = select(actions).order_by(actions.c.requested_at, actions.c.action_id)
    query = query.where(actions.c.status == status) if status else query.where(actions.c.status.in_(SHOWN_STATUSES))
    if thread_id is not None:
        query = query.where(actions.c.thread_id == thread_id)
    if not person.is_admin:
        # Named deciders are a JSON list; the few rows that have one are sifted below.
        query = query.where(or_(actions.c.requester_id == person.user_id, actions.c.deciders.is_not(None)))
    place = decode_cursor(cursor) if cursor else None
    found: list[Action] = []
    while True:
        page = query.limit(limit + 1 - len(found))
        if place is not None:
            moment, action_id = place
            page = page.where(
                or_(
                    actions.c.requested_at > moment,
                    and_(actions.c.requested_at == moment, actions.c.action_id > action_id),
                )
            )
        rows = [Action.of_row(row) for row in connection.execute(page)]
        found += [action for action in rows if may_see(action, person)]
        if not rows or len(found) > limit:
            break
        place = (rows[-1].requested_at, rows[-1].action_id)
    if len(found) <= limit:
        return found, None
    last = found[limit - 1]
    return found[:limit], encode_cursor(last.requested_at, last.action_id)
