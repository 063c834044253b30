"""`butler doctor`: looks at what the server stands on, changes nothing, says what to do (E5)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from butler.people import ROLES
from butler.storage.audit_check import verify_database
from butler.storage.migrate import HEAD
from config.policy_file import RuleDefinition
from config.problems import did_you_mean
from config.settings import Settings
from config.tools_file import ToolDefinition

State = Literal["good", "note", "bad"]
CHECKED_ROWS = 1000
OWN = "give it to the user that Butler runs as, or set BUTLER_DATA_DIR to another folder"
MEND = "install it, or correct `command`"
SCRIPTS = frozenset({".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"})


@dataclass(frozen=True)
class Finding:
    """What one check found: `note` is worth knowing, `bad` stops the butler, or something declared, from working."""

    name: str
    state: State
    detail: str
    do: str = ""
    """What to do about it, where `detail` does not say so already."""


def files(settings: Settings, counted: str) -> Iterator[Finding]:
    """What was read; `counted` says how much. An absent file is allowed, but seldom meant."""
    name, folder = "configuration", settings.config_dir
    if not folder.is_dir():
        where = "start Butler in the project's folder, or set BUTLER_CONFIG_DIR"
        yield Finding(name, "bad", f"there is no folder {folder}; {where}")
        return
    complete = True
    for file, without in (("tools.yml", "there are no tools"), ("policy.yml", "there are no rules")):
        path = folder / file
        if path.exists():
            continue
        complete = False
        twin = path.with_suffix(".yaml")
        hint = f"; {twin.name} is not read, rename it" if twin.exists() else ""
        yield Finding(name, "bad" if hint else "note", f"{path} does not exist, so {without}{hint}")
    if complete:
        yield Finding(name, "good", f"{folder}: {counted}")


def programs(definitions: tuple[ToolDefinition, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether what the declared commands start is there; otherwise only an approved call would tell."""
    name, checked, missing = "tools", 0, False
    for tool in definitions:
        if not tool.command:
            continue
        checked += 1
        program, *others = (template.fill(lambda _: "", lambda _: "") for template in tool.command)
        if not _is_program(program, tool.cwd, environ):
            missing = True
            yield Finding(name, "bad", f"{tool.source}: {tool.name}: there is no program {program!r}", MEND)
        elif others and not tool.command[1].arguments and _is_missing_script(others[0], tool.cwd):
            missing = True
            yield Finding(
                name, "bad", f"{tool.source}: {tool.name}: there is no file {others[0]!r} in {tool.cwd}", MEND
            )
    if checked and not missing:
        yield Finding(name, "good", f"the programs of {checked} command(s) are there")


def _is_program(program: str, cwd: Path, environ: Mapping[str, str]) -> bool:
    if "/" in program:
        path = cwd / program
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(program, path=environ.get("PATH", os.defpath)) is not None


def _is_missing_script(item: str, cwd: Path) -> bool:
    return Path(item).suffix in SCRIPTS and not item.startswith("-") and not (cwd / item).exists()


def deciders(rules: tuple[RuleDefinition, ...], database_path: Path) -> Iterator[Finding]:
    """Whether everyone whom a rule lets decide exists, and whether they are enough.

    Before the first start there is nobody to look up.
    """
    people = _people(database_path)
    if people is None:
        return
    known = {*ROLES, "requester", *(name for name, _, _ in people)}
    active = {name: role for name, role, disabled in people if disabled is None and role != "agent"}
    for rule in rules:
        yield from _enough_people(rule, active)
        for word in dict.fromkeys((*(rule.deciders or ()), *rule.escalate_to)):
            if word not in known:
                guess = did_you_mean(word, known)
                detail = f"{rule.source}: {rule.name}: {word!r} is no user and no role{guess}; admins can decide"
                yield Finding("deciders", "note", detail)


def _enough_people(rule: RuleDefinition, active: Mapping[str, str]) -> Iterator[Finding]:
    """Whether those who may sign in can give the approvals that a rule wants; `active` has their roles by name."""
    # Without any admin, the first start of the server is still to come: it adds the owner.
    if rule.verdict != "approve" or "admin" not in active.values():
        return
    named = {*(rule.deciders or ("admin",)), *rule.escalate_to}
    able = {name for name, role in active.items() if role == "admin" or named & {name, role}}
    needed, place = rule.approvals_needed, f"{rule.source}: {rule.name}"
    waits = "it waits for ever" if rule.expires_in is None else "it can only expire"
    if "requester" not in named and len(able) < needed:
        yield Finding("deciders", "note", f"{place}: takes {needed} people, but only {len(able)} may decide; {waits}")
        return
    # Where a rule names deciders, a requester who is none of them may not decide, admin or not.
    for name in sorted(able):
        left_out = rule.deciders is not None and not {name, active[name], "requester"} & named
        if left_out and len(able) - 1 < needed:
            detail = f"{place}: asked by {name}, too few others may decide ({len(able) - 1} of {needed}); {waits}"
            yield Finding("deciders", "note", detail)


def data_directory(path: Path) -> Finding:
    """Whether the directory can be written to and is closed to other users of the machine (F2)."""
    name = "data directory"
    if not path.exists():
        parent = next(parent for parent in path.parents if parent.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return Finding(name, "bad", f"{path} does not exist and can't be made: {parent} is not writable", OWN)
        return Finding(name, "note", f"{path} does not exist yet; the first start makes it")
    try:
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"butler")
    except OSError as error:
        return Finding(name, "bad", f"{path} can't be written to: {error.strerror}", OWN)
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
        with closing(_open(path)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            (users,) = connection.execute("SELECT count(*) FROM users").fetchone()
    except sqlite3.Error as error:
        return Finding(
            name, "bad", f"{path} can't be used: {error}", "restore it from a backup, or set BUTLER_DATABASE_URL"
        )
    if verdict != "ok":
        return Finding(name, "bad", f"{path} is damaged ({verdict}); restore it from a backup")
    if revision != HEAD:
        return Finding(name, "note", f"{path} has schema {revision}; the next start brings it to {HEAD}")
    return Finding(name, "good", f"{path} is sound, {users} user(s)")


def audit_chain(path: Path) -> Iterator[Finding]:
    """Whether the newest rows of the audit hold together; an older schema has no chain yet."""
    name = "audit"
    try:
        report = verify_database(path, last_rows=CHECKED_ROWS)
    except sqlite3.Error:
        return
    if report.fault is not None:
        yield Finding(name, "bad", f"{report.fault.detail}; `butler audit verify` looks at all of it")
    else:
        yield Finding(name, "good", f"the last {report.count} rows hold together, head {report.head}")


def _people(path: Path) -> list[tuple[str, str, str | None]] | None:
    """Every user's name, role and time of disabling; None without a database that could tell, which `database` says."""
    if not path.exists():
        return None
    try:
        with closing(_open(path)) as connection:
            return connection.execute("SELECT name, role, disabled_at FROM users").fetchall()
    except sqlite3.Error:
        return None


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=10)
