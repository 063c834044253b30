"""Commands whose code is read only when they are called: `butler approve` needs no database, `user add` no client."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from config.problems import did_you_mean

PLACES: Mapping[str, str] = {
    "approvals": "approvals:approvals_app",
    "approve": "deciding:approve",
    "audit": "audit:audit_app",
    "chat": "chat:chat",
    "deny": "deciding:deny",
    "doctor": "doctor:doctor",
    "grants": "grants:grants_app",
    "maids": "maids:maids_app",
    "mcp": "mcp_server:mcp",
    "memory": "memory:memory_app",
    "notify": "notify:notify_app",
    "policy": "policy:policy_app",
    "respond": "deciding:respond",
    "threads": "threads:threads_app",
    "user": "people:user_app",
}
"""Where each command is, as MODULE:NAME below this package: a function, or the Typer app of a family."""


class LazyGroup(TyperGroup):
    """The commands of the application itself and those of `PLACES`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command's name."""
        return sorted({*super().list_commands(ctx), *PLACES})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is meant, or say which one may have been."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], known)}.")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None when there is none."""
        place = PLACES.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place.partition(":")
        found = getattr(import_module(f"service.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            family = typer.main.get_group(found)
            family.name = cmd_name
            return family
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name)(found)
        return typer.main.get_command(alone)
