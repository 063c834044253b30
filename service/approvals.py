"""Reading the inbox: pages of approvals that cost the same however many wait (http-api, *Resume*)."""

from __future__ import annotations

import base64
import binascii
import json
from heapq import merge
from itertools import islice
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    tuple_,
)

from butler.approvals.actions import Action
from butler.approvals.decide import may_see
from butler.clock import stamp
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
    code: str | None = None,
) -> tuple[list[Action], str | None]:
    """One page, oldest first, of the approvals that `person` may see, and the cursor of the next page."""
    query = select(actions).order_by(actions.c.requested_at, actions.c.action_id)
    # Written out, not bound: only so does SQLite see that the index of the pending ones serves.
    wanted: BindParameter[str] = bindparam("status", status, literal_execute=True)
    query = query.where(actions.c.status == wanted if status else actions.c.status.in_(SHOWN_STATUSES))
    if thread_id is not None:
        query = query.where(actions.c.thread_id == thread_id)
    if code is not None:
        query = query.where(actions.c.code == code)
    place = decode_cursor(cursor) if cursor else None
    # One query for each way to be concerned: an OR over them would use no index.
    concerned = [query] if person.is_admin else [query.where(_is_own(person)), query.where(_is_named(person))]
    found = merge(*(_read(connection, one, person, place, limit + 1) for one in concerned), key=_place_of)
    items = list(islice(found, limit + 1))
    if len(items) <= limit:
        return items, None
    return items[:limit], encode_cursor(*_place_of(items[limit - 1]))


def _place_of(action: Action) -> tuple[str, str]:
    return action.requested_at, action.action_id


def _is_own(person: Principal) -> ColumnElement[bool]:
    return actions.c.requester_id == person.user_id


def _is_named(person: Principal) -> ColumnElement[bool]:
    """Whether the policy names the person or their role for an action of somebody else; `may_see` has the last word."""
    # Names and roles need no escapes in JSON, so their text is found as it stands: far quicker than reading it.
    words = (f'"{person.name}"', f'"{person.role}"')
    decides, decides_later = (
        or_(*(func.instr(column, word) > 0 for word in words)) for column in (actions.c.deciders, actions.c.escalate_to)
    )
    due = and_(actions.c.status == "pending", actions.c.escalate_at <= stamp())
    return and_(
        # As the index says it.
        or_(actions.c.deciders.is_not(None), actions.c.escalate_to.is_not(None)),
        or_(decides, and_(or_(actions.c.escalated_at.is_not(None), due), decides_later)),
        actions.c.requester_id != person.user_id,
    )


def _read(
    connection: Connection, query: Select[Any], person: Principal, place: tuple[str, ...] | None, count: int
) -> list[Action]:
    """The first `count` actions of the query behind `place` that the person may see."""
    found: list[Action] = []
    while True:
        page = query.limit(count - len(found))
        if place is not None:
            page = page.where(tuple_(actions.c.requested_at, actions.c.action_id) > tuple_(*place))
        rows = [Action.of_row(row) for row in connection.execute(page)]
        found += [action for action in rows if may_see(action, person)]
        if not rows or len(found) >= count:
            return found
        place = _place_of(rows[-1])
