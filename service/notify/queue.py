"""The queue of notifications in the database: one row per event, person and channel, never twice (B7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, case, delete, exists, func, or_, select, true, update
from sqlalchemy.dialects import sqlite

from butler.approvals.actions import Action
from butler.clock import stamp
from butler.people import Principal
from butler.storage.tables import actions, notifications, users
from butler.storage.users import active_people
from butler.types import Json
from service.notify.channels import Channel

Kind = Literal["approval", "escalation", "reply"]
ADD = sqlite.insert(notifications).on_conflict_do_nothing(index_elements=["subject"])
KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class Notification:
    """One row that waits to be sent."""

    seq: int
    kind: Kind
    user_id: str
    channel: str
    action_id: str | None
    run_id: str | None
    attempts: int
    created_at: str


@dataclass(frozen=True)
class Trouble:
    """A channel that does not take what it should: how many wait or were given up, since when, and why."""

    user: str
    channel: str
    waiting: int
    given_up: int
    since: str
    error: str


def person(connection: Connection, user_id: str) -> Principal | None:
    """That person, unless it is gone or disabled."""
    return next((one for one in active_people(connection) if one.user_id == user_id), None)


def row_of(kind: Kind, about: str, who: Principal, channel: Channel, **values: Any) -> Json:
    """A row to add; `about` names the event, so that the same one is never queued twice for a channel."""
    moment = stamp()
    return {
        "subject": f"{kind}:{about}:{channel.key}", "kind": kind, "user_id": who.user_id, "channel": channel.key,
        "action_id": None, "run_id": None, "status": "queued", "next_at": moment, "created_at": moment, **values,
    }  # fmt: skip


def add(connection: Connection, rows: Sequence[Json]) -> None:
    """Queue rows; those that are known stay as they are."""
    if rows:
        connection.execute(ADD, rows)


def unannounced(connection: Connection, place: tuple[str, str], limit: int) -> list[Action]:
    """Pending actions of which nothing was ever queued, oldest first, after `place` (requested_at, action_id).

    The look-up goes by the beginning of `subject`, whose index is unique.
    """
    about = "approval:" + actions.c.action_id + ":" + actions.c.requested_at
    return _without_row(connection, about, actions.c.requested_at, true(), place, limit)


def unescalated(connection: Connection, moment: str, place: tuple[str, str], limit: int) -> list[Action]:
    """Pending actions whose time of escalation has come and of which nobody new was told, in the order of that time.

    Only those after `place` (escalate_at, action_id): where nobody who may decide has a channel, no row ever says so.
    """
    about = "escalation:" + actions.c.action_id + ":" + actions.c.escalate_at
    due = actions.c.escalate_at.is_not(None) & (actions.c.escalate_at <= moment)
    return _without_row(connection, about, actions.c.escalate_at, due, place, limit)


def _without_row(
    connection: Connection, about: Any, time: Any, wanted: Any, place: tuple[str, str], limit: int
) -> list[Action]:
    told = exists().where(notifications.c.subject > about + ":", notifications.c.subject < about + ";")
    moment, action_id = place
    after = or_(time > moment, and_(time == moment, actions.c.action_id > action_id))
    rows = connection.execute(
        select(actions)
        .where(actions.c.status == "pending", wanted, after, ~told)
        .order_by(time, actions.c.action_id)
        .limit(limit)
    )
    return [Action.of_row(row) for row in rows]


def due(connection: Connection, moment: str, busy: Iterable[str]) -> list[Notification]:
    """The oldest row that is due for each channel that is not busy."""
    first = (
        select(func.min(notifications.c.seq))
        .where(
            notifications.c.status == "queued",
            notifications.c.next_at <= moment,
            notifications.c.channel.not_in(list(busy)),
        )
        .group_by(notifications.c.channel)
    )
    rows = connection.execute(select(notifications).where(notifications.c.seq.in_(first)).order_by("seq"))
    return [_notification(row) for row in rows]


def _notification(row: Row[Any]) -> Notification:
    return Notification(
        row.seq, row.kind, row.user_id, row.channel, row.action_id, row.run_id, row.attempts, row.created_at
    )


def close(connection: Connection, seq: int, status: Literal["sent", "dropped", "failed"], error: str | None) -> None:
    """Write down how a notification ended."""
    sent = {"attempts": notifications.c.attempts + 1} if status != "dropped" else {}
    connection.execute(
        update(notifications)
        .where(notifications.c.seq == seq, notifications.c.status == "queued")
        .values(status=status, finished_at=stamp(), error=error, **sent)
    )


def put_off(connection: Connection, seq: int, next_at: str, error: str) -> None:
    """Try again later."""
    connection.execute(
        update(notifications)
        .where(notifications.c.seq == seq, notifications.c.status == "queued")
        .values(attempts=notifications.c.attempts + 1, next_at=next_at, error=error)
    )


def bring_forward(connection: Connection, channel: str) -> None:
    """A channel works again: what was put off for it is due now."""
    connection.execute(
        update(notifications)
        .where(notifications.c.status == "queued", notifications.c.channel == channel)
        .values(next_at=stamp())
    )


def drop_orphans(connection: Connection, known: Iterable[str]) -> None:
    """End what waits for channels that the configuration no longer has."""
    connection.execute(
        update(notifications)
        .where(notifications.c.status == "queued", notifications.c.channel.not_in(list(known)))
        .values(status="dropped", finished_at=stamp(), error="the channel is not configured any more")
    )


def sweep(connection: Connection, before: str) -> None:
    """Remove rows that ended before that moment, unless their question is still open: they say it was told."""
    pending = exists().where(actions.c.action_id == notifications.c.action_id, actions.c.status == "pending")
    connection.execute(
        delete(notifications).where(notifications.c.status != "queued", notifications.c.finished_at < before, ~pending)
    )


def counts(connection: Connection) -> dict[str, int]:
    """How many rows have each status."""
    rows = connection.execute(select(notifications.c.status, func.count()).group_by(notifications.c.status))
    return {str(status): int(count) for status, count in rows}


def troubles(connection: Connection, since: str) -> list[Trouble]:
    """Channels with notifications that wait after a failure, or were given up at or after `since`."""
    waiting = (notifications.c.status == "queued") & (notifications.c.attempts > 0)
    given_up = (notifications.c.status == "failed") & (notifications.c.finished_at >= since)
    rows = connection.execute(
        select(
            users.c.name,
            notifications.c.channel,
            func.sum(case((waiting, 1), else_=0)),
            func.sum(case((given_up, 1), else_=0)),
            func.min(notifications.c.created_at),
        )
        .join(users, users.c.user_id == notifications.c.user_id)
        .where(waiting | given_up)
        .group_by(users.c.name, notifications.c.channel)
        .order_by(users.c.name, notifications.c.channel)
    ).all()
    return [Trouble(*row, _last_error(connection, row.channel)) for row in rows]


def _last_error(connection: Connection, channel: str) -> str:
    told = select(notifications.c.error).where(
        notifications.c.channel == channel, notifications.c.status.in_(("queued", "failed")),
        notifications.c.error.is_not(None),
    )  # fmt: skip
    moment = func.coalesce(notifications.c.finished_at, notifications.c.next_at)
    return str(connection.execute(told.order_by(moment.desc(), notifications.c.seq.desc()).limit(1)).scalar() or "")
