"""What the doctor and /readyz say about notifications: channels that don't take what they should (B7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from butler.storage.users import list_accounts
from config.notify_file import ChannelDefinition
from config.problems import did_you_mean
from service.doctor import Finding
from service.notify import queue
from service.notify.channels import Channels
from service.notify.notifier import ago
from service.notify.queue import Trouble

LATELY_SECONDS = 24 * 3600.0


def failing(connection: Connection) -> list[Trouble]:
    """The channels that have failed and not recovered, or gave something up within a day."""
    return queue.troubles(connection, ago(LATELY_SECONDS))


def sentence(trouble: Trouble, channels: Channels | None = None) -> str:
    """A failing channel in words; its error was masked before it was stored."""
    known = channels.get(trouble.channel) if channels else None
    name = known.shown if known else f"#{trouble.channel}"
    lost = f", {trouble.given_up} given up" if trouble.given_up else ""
    return f"{trouble.user}'s channel {name}: {trouble.waiting} waiting{lost} since {trouble.since}: {trouble.error}"


def notifications(definitions: tuple[ChannelDefinition, ...], database_path: Path) -> Iterator[Finding]:
    """Who is told at all, whether they are users, and what does not arrive."""
    name = "notifications"
    if not definitions:
        yield Finding(name, "good", "off as set here; BUTLER_NOTIFY_URLS or notify.yml switches them on")
        return
    channels = Channels(definitions)
    quiet = True
    if database_path.exists():
        reader = f"file:{quote(str(database_path))}?mode=ro"
        engine = create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(reader, uri=True, timeout=10), poolclass=NullPool
        )
        try:
            with engine.connect() as connection:
                troubles = failing(connection)
                known = {account.person.name for account in list_accounts(connection)}
        except (SQLAlchemyError, sqlite3.Error):
            return  # An older schema, or a damaged file, which the check of the database names.
        for user in sorted(channels.users() - known):
            quiet = False
            yield Finding(name, "note", f"notify.yml names {user!r}, who is no user{did_you_mean(user, known)}")
        for trouble in troubles:
            quiet = False
            yield Finding(name, "bad", f"{sentence(trouble, channels)}; try: butler notify test {trouble.user}")
    if quiet:
        yield Finding(name, "good", f"{len(channels)} channel(s) of {', '.join(sorted(channels.users()))}")
