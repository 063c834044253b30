"""Who is speaking: a user with one of three roles (http-api, *Who is calling*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["admin", "member", "agent"]
ROLES: tuple[Role, ...] = ("admin", "member", "agent")

_CHANNELS = (
    "http",
    "chat",
    "shell",
    "link",
    "notify",
    "run",
    "recovery",
    "clock",
    "start",
    "command",
    "delete",
    "maid",
    "socket",
    "studio",
)
RESERVED_NAMES = frozenset({*ROLES, "requester", "butler", "model", "policy", "everyone", *_CHANNELS})
"""Words that policy files and the audit use for roles, actors and channels; a user of that name would be ambiguous."""


@dataclass(frozen=True)
class Principal:
    """An authenticated user."""

    user_id: str
    name: str
    role: Role

    @property
    def is_admin(self) -> bool:
        """Whether this user sees every thread and decides any action."""
        return self.role == "admin"


@dataclass(frozen=True)
class Actor:
    """Who changes users or tokens, and through which face; for the audit."""

    name: str
    via: str


HOUSE = Actor("butler", "start")
"""The house itself, when it starts."""
