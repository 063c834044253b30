"""`butler doctor` on the running server: whether one runs here, what it says of itself, which agents it knows (E5)."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx2

from butler.clock import stamp
from config.settings import Settings
from service.address import TOKEN_FILE, URL_FILE, is_this_machine, read_url
from service.doctor import Finding

NAME = "server"
WAIT_SECONDS = 10.0
_AGENTS = """
SELECT users.name, agents.last_seen, EXISTS (
    SELECT 1 FROM tokens WHERE tokens.user_id = users.user_id AND tokens.revoked_at IS NULL
    AND (tokens.expires_at IS NULL OR tokens.expires_at > ?)
) FROM users LEFT JOIN agents ON agents.agent_id = users.user_id
WHERE users.role = 'agent' AND users.disabled_at IS NULL ORDER BY users.name
"""


def server(settings: Settings) -> Iterator[Finding]:
    """Whether a server holds the data directory, answers, and finds itself ready; one that does not run is no fault."""
    url, token = read_url(settings.data_dir), _token(settings)
    if not _is_held(settings.data_dir / "server.lock"):
        left = f"; {URL_FILE} is left over from one that was killed" if url else ""
        yield Finding(NAME, "note", f"none runs on this data directory{left}", "start it: make run")
        return
    if url is None:
        yield Finding(NAME, "note", "one is starting or stopping now", "look again in a few seconds")
        return
    if not is_this_machine(urlsplit(url).hostname or ""):
        do = "stop the server and start it again; no token was sent there"
        yield Finding(NAME, "bad", f"{URL_FILE} names {url}, which is not on this machine", do)
        return
    try:
        with httpx2.Client(timeout=WAIT_SECONDS, trust_env=False) as client:
            answer = client.get(f"{url}/readyz", headers={"Authorization": f"Bearer {token}"})
    except httpx2.HTTPError as error:
        do = "look at its log; stop it and start it again"
        yield Finding(NAME, "bad", f"it runs, but {url} does not answer: {type(error).__name__}", do)
        return
    if answer.status_code == 401:
        do = f"start it again; it writes the token in force to {TOKEN_FILE}"
        yield Finding(NAME, "note", f"it runs at {url}, but does not take the token in {TOKEN_FILE}", do)
        return
    yield from _checks(url, answer)


def _checks(url: str, answer: httpx2.Response) -> Iterator[Finding]:
    try:
        checks = dict(answer.json()["checks"])
    except (ValueError, KeyError, TypeError):
        yield Finding(NAME, "bad", f"what answers at {url} is no Butler", "find out which program has its port")
        return
    failing = [(name, str(check.get("detail", ""))) for name, check in checks.items() if not check.get("ok")]
    for name, detail in failing:
        yield Finding(NAME, "bad", f"it runs at {url}, but is not ready: {name}: {detail}")
    if not failing:
        yield Finding(NAME, "good", f"it runs at {url} and is ready")
    for name in ("agents", "socket"):
        if name in checks:
            yield Finding(name, "good", str(checks[name].get("detail", "")))


def agents(database: Path) -> Iterator[Finding]:
    """Which downstream agents may connect, and which of them can't; nothing where there are none."""
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=10)) as connection:
            rows = connection.execute(_AGENTS, (stamp(),)).fetchall()
    except sqlite3.Error:
        return  # an older schema, or a damaged file, which the check of the database names
    for name, _, has_token in rows:
        if not has_token:
            do = f"run: butler user token create {name}"
            yield Finding("agents", "note", f"{name!r} has no token, so it can't connect", do)
    if rows:
        known = ", ".join(f"{name} ({f'last seen {seen}' if seen else 'never seen'})" for name, seen, _ in rows)
        yield Finding("agents", "good", f"{len(rows)} known: {known}")


def _token(settings: Settings) -> str:
    if settings.owner_token is not None:
        return settings.owner_token.get_secret_value()
    try:
        return (settings.data_dir / TOKEN_FILE).read_text("utf-8").strip()
    except OSError:
        return ""


def _is_held(lock: Path) -> bool:
    """Whether a server has the lock; nothing is changed by looking."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
