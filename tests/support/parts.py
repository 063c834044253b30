"""Parts of the house for tests inside one process: people, tools, proposals and database files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from butler.approvals.actions import Action
from butler.approvals.judge import Judge
from butler.approvals.ledger import Proposal, propose
from butler.approvals.policy import Policy
from butler.people import Principal
from butler.redact import secret_args_of
from butler.storage.database import Database
from butler.storage.migrate import migrate
from butler.storage.tables import audit, runs, threads, users
from butler.tools.registry import ToolRegistry, Toolset
from butler.types import Invocation, Json, Ruling, ToolResult, ToolRunner, ToolSpec, Verdict
from config.policy_file import PolicyFile, RuleDefinition

ADMIN = Principal("u-admin", "ada", "admin")
MIA = Principal("u-mia", "mia", "member")
MAX = Principal("u-max", "max", "member")
BOT = Principal("u-bot", "bot", "agent")
PEOPLE = (ADMIN, MIA, MAX, BOT)

TEXT_SCHEMA: Json = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@cache
def _migrated() -> bytes:
    """A database file with the newest schema and nothing in it; alembic is slow, copies are not."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "template.db"
        migrate(path)
        return path.read_bytes()


def quick_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory in memory where there is one: for the thousands of commits of a property test."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


def new_database(path: Path) -> Database:
    """Open a database file; a fresh, migrated one unless there is one already."""
    if not path.exists():
        path.write_bytes(_migrated())
    return Database(path)


def add_people(connection: Connection) -> None:
    """Store the people of this module, whom threads and runs refer to, unless they are there already."""
    rows = [{"user_id": one.user_id, "name": one.name, "role": one.role, "created_at": "2031"} for one in PEOPLE]
    connection.execute(insert(users).prefix_with("OR IGNORE"), rows)


def add_run(
    connection: Connection,
    run_id: str,
    thread_id: str | None = None,
    person: Principal = ADMIN,
    status: str = "running",
) -> None:
    """Store a run, and its thread and people if need be; what is there already stays as it is."""
    add_people(connection)
    thread_id = thread_id or f"thread of {run_id}"
    if connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id)).first() is not None:
        return
    times = {"created_at": "2031", "updated_at": "2031"}
    connection.execute(
        insert(threads).prefix_with("OR IGNORE"),
        {"thread_id": thread_id, "owner_id": person.user_id, "title": "t", "status": "running", "turns": 0, **times},
    )
    turn = connection.execute(
        update(threads)
        .where(threads.c.thread_id == thread_id)
        .values(turns=threads.c.turns + 1)
        .returning(threads.c.turns)
    ).scalar_one()
    connection.execute(
        insert(runs).values(
            run_id=run_id, thread_id=thread_id, turn=turn, requester_id=person.user_id, message="m", status=status,
            **times,
        )
    )  # fmt: skip


def set_run(connection: Connection, run_id: str, status: str) -> None:
    """Change a run's status, whatever it was."""
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(status=status))


async def _echo(call: Invocation) -> ToolResult:
    return ToolResult(f"{call.tool} ran with {call.args!r}")


def tool(
    name: str,
    verdict: Verdict | None = None,
    run: ToolRunner = _echo,
    *,
    schema: Json = TEXT_SCHEMA,
    idempotent: bool = False,
    digest: str = "",
) -> ToolSpec:
    """A governed tool."""
    return ToolSpec(
        name=name, description=f"Does {name}", input_schema=schema, run=run, governed=True, source="tools.yml:1",
        digest=digest or f"digest of {name}", verdict=verdict, idempotent=idempotent,
        secret_args=secret_args_of(schema),
    )  # fmt: skip


def registry(*specs: ToolSpec) -> ToolRegistry:
    """A registry of these tools alone."""
    return ToolRegistry([Toolset("tests", "governed", specs, "tools.yml:1")] if specs else [])


def rule(name: str, glob: str, verdict: Verdict, reason: str | None = None, **args: str) -> RuleDefinition:
    """A policy rule; `args` are globs."""
    return RuleDefinition(
        name=name, tool=glob, args=args, verdict=verdict, reason=reason, risk=None, deciders=None, expires_in=None,
        source="policy.yml:1",
    )  # fmt: skip


def judge(tools: ToolRegistry, *rules: RuleDefinition, default: Verdict = "approve") -> Judge:
    """A judge over these tools and rules."""
    return Judge(Policy(PolicyFile(default, rules)), tools)


def ruling(
    verdict: Verdict, *, deciders: tuple[str, ...] | None = None, expires_in: float | None = None, name: str = "a-rule"
) -> Ruling:
    """A ruling as a policy would give it."""
    return Ruling(verdict, name, f"because of {name}", "dangerous", deciders=deciders, expires_in=expires_in)


def proposal(call_id: str, position: int = 0, *, name: str = "act", text: str = "hello") -> Proposal:
    """A valid call of a tool with one text."""
    return Proposal(call_id, position, name, {"text": text}, f"{name}(text={text})", f"digest of {name}")


def proposed(
    database: Database,
    *verdicts: Ruling,
    run_id: str = "run",
    thread_id: str = "thread",
    person: Principal = ADMIN,
) -> list[Action]:
    """Put one action per ruling into the ledger."""
    calls = [proposal(f"call-{run_id}-{position}", position) for position in range(len(verdicts))]
    rule_of = dict(zip((call.call_id for call in calls), verdicts, strict=True))

    def write(connection: Connection) -> list[Action]:
        add_run(connection, run_id, thread_id, person)
        return propose(
            connection, calls, run_id=run_id, thread_id=thread_id, person=person,
            rule=lambda _, call: rule_of[call.call_id],
        )  # fmt: skip

    return database.write_now(write)


def audited(connection: Connection, action_id: str | None = None) -> Sequence[str]:
    """The events of the audit in order, of one action or of all."""
    query = select(audit.c.event).order_by(audit.c.seq)
    return (
        connection.execute(query if action_id is None else query.where(audit.c.action_id == action_id)).scalars().all()
    )
