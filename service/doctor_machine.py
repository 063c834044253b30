"""`butler doctor` on the machine: room on the disk, who can read the files, the clock, what is installed (E5, F2)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from config.settings import Settings
from service.address import TOKEN_FILE
from service.doctor import Finding
from service.notify.links import KEY_FILE

LITTLE_BYTES = 1024**3
NO_BYTES = 100 * 1024**2
"""Below this, a search index, a fold or a few maids fill the disk."""
CLOCK_SLACK = timedelta(minutes=5)
BUILT = datetime(2026, 1, 1, tzinfo=UTC)
"""No clock that is right shows an earlier time."""
REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"
MOST_NAMED = 5

Installed = Callable[[str], str]


def disk(path: Path) -> Finding:
    """Whether there is room where the data is, or will be."""
    name, place = "disk", next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(place).free
    do = "free some space, or set BUTLER_DATA_DIR to a folder on another disk"
    if free < NO_BYTES:
        return Finding(name, "bad", f"less than 100 MB are free on the disk of {path}; turns will fail", do)
    if free < LITTLE_BYTES:
        return Finding(name, "note", f"less than 1 GB is free on the disk of {path}", do)
    return Finding(name, "good", f"1 GB or more is free on the disk of {path}")


def private_files(settings: Settings) -> Iterator[Finding]:
    """Files with secrets or talks in them that other users of the machine can read or change."""
    folder, database = settings.data_dir, settings.database_path
    for path in (folder / TOKEN_FILE, folder / KEY_FILE, database, folder / "checkpoints.db"):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            yield Finding("files", "bad", f"{path} is open to others (mode {mode:04o})", f"run: chmod 600 {path}")
        elif not os.access(path, os.R_OK | os.W_OK):
            do = "start Butler as the user whom the file belongs to, or change its owner"
            yield Finding("files", "bad", f"{path} can't be read and written by this user", do)


def clock(database: Path, now: datetime | None = None) -> Finding:
    """Whether the time can be right: expiry, leases and the order of the audit go by it."""
    name, now = "clock", now or datetime.now(UTC)
    do = "set the machine's clock, or switch time synchronisation on"
    if now < BUILT:
        return Finding(name, "bad", f"it shows {now:%Y-%m-%d}, which is past", do)
    newest = _newest_row(database)
    if newest is not None and newest > now + CLOCK_SLACK:
        detail = (
            f"the newest audit row is from {newest:%Y-%m-%d %H:%M} UTC, but the clock shows {now:%Y-%m-%d %H:%M} UTC"
        )
        return Finding(name, "bad", detail, do)
    return Finding(name, "good", "not behind what is recorded")


def _newest_row(database: Path) -> datetime | None:
    if not database.exists():
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=10)) as connection:
            row = connection.execute("SELECT at FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
        return datetime.fromisoformat(row[0]) if row else None
    except (sqlite3.Error, ValueError):
        return None  # `doctor.database` tells of a file that can't be read


def versions(pinned: Path = REQUIREMENTS, installed: Installed = metadata.version) -> Finding:
    """Whether what is installed is what Butler was tested with."""
    name, python = "versions", ".".join(map(str, sys.version_info[:3]))
    try:
        lines = [line.partition(";")[0].strip() for line in pinned.read_text("utf-8").splitlines()]
    except OSError:
        return Finding(name, "note", f"Python {python}; there is no {pinned.name} to compare with")
    wanted = [line.split("==") for line in lines if line.count("==") == 1]
    missing, other = list[str](), list[str]()
    for package, version in wanted:
        try:
            found = installed(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
            continue
        if found != version:
            other.append(f"{package} {found} instead of {version}")
    do = "run: make install"
    if missing:
        return Finding(name, "bad", f"not installed: {_some(missing)}", do)
    if other:
        return Finding(name, "note", f"not what Butler was tested with: {_some(other)}", do)
    return Finding(name, "good", f"Python {python}; {len(wanted)} packages are as pinned")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def studio(found: Callable[[str], object] = find_spec) -> Finding:
    """LangGraph Studio is a developer's tool: nothing is wrong without it."""
    if found("langgraph_api") is None:
        return Finding(
            "studio",
            "good",
            "LangGraph's development server is not in this environment; only developers need it (`make studio`)",
        )
    return Finding("studio", "good", "LangGraph's development server is installed")
