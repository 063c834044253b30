"""`butler doctor`: looks at what the server stands on, changes nothing, says what to do (E5)."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

import httpx2

from butler.storage.migrate import HEAD
from config.settings import Settings

State = Literal["good", "note", "bad"]
MODEL_WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """What one check found: `note` is worth knowing, `bad` stops the butler from working."""

    name: str
    state: State
    detail: str


def examine(settings: Settings) -> Iterator[Finding]:
    """Check the data directory, the database and the model, one finding each."""
    yield data_directory(settings.data_dir)
    yield database(settings.database_path)
    yield model(settings)


def data_directory(path: Path) -> Finding:
    """Whether the directory can be written to and is closed to other users of the machine (F2)."""
    name = "data directory"
    if not path.exists():
        parent = next(parent for parent in path.parents if parent.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return Finding(name, "bad", f"{path} does not exist and can't be made: {parent} is not writable")
        return Finding(name, "note", f"{path} does not exist yet; the first start makes it")
    try:
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"butler")
    except OSError as error:
        return Finding(name, "bad", f"{path} can't be written to: {error.strerror}")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding(name, "bad", f"{path} is open to others (mode {mode:04o}); run: chmod 700 {path}")
    return Finding(name, "good", f"{path} is writable, mode {mode:04o}")


def database(path: Path) -> Finding:
    """Whether the database file is sound; it is opened for reading only."""
    name = "database"
    if not path.exists():
        return Finding(name, "note", f"{path} does not exist yet; the first start makes it")
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            (users,) = connection.execute("SELECT count(*) FROM users").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return Finding(name, "bad", f"{path} can't be used: {error}")
    if verdict != "ok":
        return Finding(name, "bad", f"{path} is damaged ({verdict}); restore it from a backup")
    if revision != HEAD:
        return Finding(name, "note", f"{path} has schema {revision}; the next start brings it to {HEAD}")
    return Finding(name, "good", f"{path} is sound, {users} user(s)")


def model(settings: Settings) -> Finding:
    """Whether the model's endpoint answers, takes the key and knows the model; no tokens are spent."""
    name = "model"
    if settings.base_url is None or settings.model is None:
        missing = " and ".join(settings.model_missing)
        return Finding(name, "note", f"none configured: set {missing}; commands work without one")
    host = urlsplit(settings.base_url).netloc.rpartition("@")[2]
    headers = {}
    if settings.api_token is not None:
        headers["Authorization"] = f"Bearer {settings.api_token.get_secret_value()}"
    try:
        answer = httpx2.get(
            f"{settings.base_url}/models",
            headers=headers,
            timeout=min(settings.model_timeout, MODEL_WAIT_SECONDS),
        )
    except httpx2.HTTPError as error:
        return Finding(name, "bad", f"{host} does not answer: {type(error).__name__}: {error}")
    if answer.status_code in (401, 403):
        detail = f"{host} refuses the key (HTTP {answer.status_code}); see BUTLER_API_TOKEN"
        return Finding(name, "bad", detail)
    if answer.status_code in (404, 405):
        return Finding(name, "note", f"{host} answers, but lists no models (HTTP {answer.status_code})")
    if answer.status_code != 200:
        return Finding(name, "bad", f"{host} answers HTTP {answer.status_code}; see BUTLER_BASE_URL")
    known = _listed(answer)
    if settings.model in known:
        return Finding(name, "good", f"{host} answers and lists {settings.model!r}")
    return Finding(name, "note", f"{host} answers, but does not list {settings.model!r}; see BUTLER_MODEL")


def _listed(answer: httpx2.Response) -> set[str]:
    try:
        items = answer.json()["data"]
        return {item["id"] for item in items}
    except (ValueError, KeyError, TypeError):
        return set()
