"""Downstream agents as the database knows them: users with the role `agent`, and what is kept of each (B5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select, update
from sqlalchemy.dialects.sqlite import insert

from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Actor, Principal
from butler.storage import audit, tokens
from butler.storage.agent_tables import agents
from butler.storage.tables import users
from butler.storage.users import add_account, check_name, set_disabled
from butler.types import Json

MOST_DESCRIPTION = 2000
MOST_CAPABILITIES = 50
MOST_CAPABILITY = 100


@dataclass(frozen=True)
class Agent:
    """An agent that may connect. What it says of itself (`capabilities`, `last_report`) is data, never instructions."""

    agent_id: str
    name: str
    description: str
    capabilities: list[str]
    last_seen: str | None
    named_since: str
    last_report: str | None
    reported_at: str | None


def _query() -> Select[Any]:
    return (
        select(users.c.user_id, users.c.name, users.c.created_at, agents)
        .join(agents, agents.c.agent_id == users.c.user_id, isouter=True)
        .where(users.c.role == "agent", users.c.disabled_at.is_(None))
    )


def _agent(row: Row[Any]) -> Agent:
    return Agent(
        row.user_id, row.name, row.description or "", list(row.capabilities or ()), row.last_seen,
        row.named_at or row.created_at, row.last_report, row.reported_at,
    )  # fmt: skip


def listed(connection: Connection, limit: int = 500) -> list[Agent]:
    """All agents that may connect, by name."""
    return [_agent(row) for row in connection.execute(_query().order_by(users.c.name).limit(limit))]


def find(connection: Connection, word: str) -> Agent | None:
    """The agent with that id, or else with that name in any case; None when there is none."""
    row = connection.execute(_query().where(users.c.user_id == word)).first()
    if row is None:
        row = connection.execute(_query().where(func.lower(users.c.name) == word.lower())).first()
    return _agent(row) if row else None


def the_agent(connection: Connection, word: str, asked_at: str | None = None) -> Agent:
    """The agent that `word` names, by id or name.

    Args:
        asked_at: when the call was shown to people; a name that went to this agent later meant another one.

    Raises: ButlerError ``not_found``.
    """
    found = find(connection, word)
    if found is None:
        raise ButlerError("not_found", f"There is no agent {word!r}. list_agents names those that there are.")
    if asked_at is not None and word != found.agent_id and found.named_since > asked_at:
        raise ButlerError("not_found", f"The name {word!r} went to another agent after this was asked.")
    return found


def create(connection: Connection, name: str, description: str, by: Actor) -> Principal:
    """Make an agent; it has no token, so it can't connect yet. Raises ButlerError ``invalid_request``."""
    person = add_account(connection, name, "agent", by)
    _keep(connection, person.user_id, description=description)
    return person


def edit(
    connection: Connection, agent: Agent, by: Actor, *, name: str | None = None, description: str | None = None,
    capabilities: Sequence[str] | None = None,
) -> list[str]:  # fmt: skip
    """Change what is given, and say what was. Raises ButlerError ``invalid_request``."""
    changes: Json = {}
    if name is not None and name != agent.name:
        if name.lower() != agent.name.lower():
            check_name(connection, name)
        connection.execute(update(users).where(users.c.user_id == agent.agent_id).values(name=name))
        changes |= {"name": name, "before": agent.name}
        _keep(connection, agent.agent_id, named_at=stamp())
    if description is not None:
        changes["description"] = description
        _keep(connection, agent.agent_id, description=description)
    if capabilities is not None:
        changes["capabilities"] = list(capabilities)
        _keep(connection, agent.agent_id, capabilities=list(capabilities))
    if changes:
        audit.record(connection, "agent_edited", actor=by.name, via=by.via, agent_id=agent.agent_id, **changes)
    return [what for what in changes if what != "before"]


def delete(connection: Connection, agent: Agent, by: Actor) -> None:
    """Shut an agent out for good: its tokens end. Its name stays taken, since the audit speaks of it."""
    person = Principal(agent.agent_id, agent.name, "agent")
    tokens.revoke_tokens(connection, person, by, tokens.live_tokens(connection, agent.agent_id))
    set_disabled(connection, agent.name, True, by)
    audit.record(connection, "agent_deleted", actor=by.name, via=by.via, agent_id=agent.agent_id, name=agent.name)


def saw(connection: Connection, agent_id: str, capabilities: Sequence[str] | None = None) -> None:
    """Note that an agent is there now, and what it says it can do, if it says so."""
    said = {} if capabilities is None else {"capabilities": list(capabilities)}
    _keep(connection, agent_id, last_seen=stamp(), **said)


def reported(connection: Connection, agent_id: str, text: str) -> None:
    """Keep the last thing that an agent said on its own account."""
    moment = stamp()
    _keep(connection, agent_id, last_seen=moment, last_report=text, reported_at=moment)


def _keep(connection: Connection, agent_id: str, **values: Any) -> None:
    row = {"agent_id": agent_id, **values}
    connection.execute(insert(agents).values(**row).on_conflict_do_update(index_elements=["agent_id"], set_=values))
