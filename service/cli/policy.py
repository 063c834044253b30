"""`butler policy`: try the rules without running anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from butler.approvals.own_ruling import own_verdict
from butler.approvals.policy import Explanation, Policy
from butler.people import ROLES, Role
from butler.types import Json, Ruling
from config.environment import read_environment
from config.policy_file import RuleDefinition, load_policy_file
from config.problems import ConfigError, did_you_mean
from service.cli.common import configuration, json_object
from service.cli.exits import FAILED
from service.cli.plain import json_document, visible
from service.cli.policy_check import examine
from service.mcp_names import known_with_brought, verdict_in_file
from service.policy_review import role_of

policy_app = typer.Typer(help="Try the policy without running anything.", no_args_is_help=True)


@policy_app.command("test")
def policy_test(
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="The call's arguments as a JSON object.")] = "{}",
    name: Annotated[str | None, typer.Option("--as", help="The user who asks for the call.")] = None,
    role: Annotated[Role | None, typer.Option(help="The role of who asks; default: that of the user.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the verdict on a call, the winning rule and every rule that matched; grants are not asked."""
    args = json_object(arguments)
    read = configuration(channels=False)
    if name is not None and role is None:
        role = _known_role(read.settings.database_path, name)
    spec, brought = read.tools.get(tool), verdict_in_file(tool, read.mcp)
    if spec is None and brought is not None:
        notes = [f"{tool!r} would be a tool of an MCP server, whose schema is not known here"]
    elif spec is None:
        notes = [f"no tool {tool!r} is declared{did_you_mean(tool, read.tools.names())}"]
    else:
        notes = [f"such a call would not get this far: {fault}" for fault in read.tools.validate(tool, args)]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    found = read.policy.explain(tool, args, own_verdict=own_verdict(spec, args) if spec else brought)
    ruling = found.ruling
    if as_json:
        print(json_document(_document(tool, args, found, notes)))
        return
    print(f"verdict: {ruling.verdict}")
    print(f"rule: {ruling.rule}" + (f" ({found.winner.source})" if found.winner else ""))
    print(f"reason: {visible(ruling.reason)}")
    print(f"risk: {ruling.risk}")
    if ruling.verdict == "approve":
        for line in _who_and_when(ruling, name, role):
            print(line)
    for rule in found.matched:
        print(f"matched: {rule.name} ({rule.source}) {rule.verdict}")
    if not found.matched:
        print("matched: no rule")


@policy_app.command("check")
def policy_check(
    actions: Annotated[int, typer.Option(min=0, help="Rule again on this many recorded actions; 0: on none.")] = 200,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Look at this file in place of policy.yml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Name rules that can never win, rules hardly meant so, tools without a rule, and what this policy would change."""
    read = configuration(channels=False)
    looked_at = read.policy
    if policy is not None:
        looked_at = Policy(load_policy_file(policy))
        names = known_with_brought(read.tools.names(), looked_at.definition.rules, read.mcp)
        problems = (*looked_at.mistaken_tools(names), *looked_at.mistaken_args(read.tools.specs()))
        if problems:
            raise ConfigError(problems)
    report = examine(read, looked_at, actions, read.redactor(read_environment().values))
    if as_json:
        print(json_document(report.document()))
    else:
        for line in report.lines():
            print(line)
    if report.never_win:
        raise typer.Exit(FAILED)


def _document(tool: str, args: Json, found: Explanation, notes: list[str]) -> Json:
    """What `policy test` found, for programs."""
    said = asdict(found.ruling) | {"matched": [_rule(rule) for rule in found.matched]}
    source = found.winner.source if found.winner else None
    return {"tool": tool, "args": args, **said, "source": source, "notes": notes}


def _rule(rule: RuleDefinition) -> Json:
    return {"name": rule.name, "verdict": rule.verdict, "source": rule.source}


def _known_role(database: Path, name: str) -> Role:
    stored = role_of(database, name)
    role = next((known for known in ROLES if known == stored), None)
    if role is None:
        raise typer.BadParameter(f"there is no user {name!r}; add --role to try it for one to come")
    return role


def _who_and_when(ruling: Ruling, name: str | None, role: Role | None) -> Iterator[str]:
    """Who decides, how many of them, and until when, in words."""
    named = ruling.deciders or ("admin",)
    yield f"deciders: {', '.join(named)}" + ("" if "admin" in named else "; admins can always decide")
    yield f"requester: {_requester(ruling, name, role)}"
    people = "one person" if ruling.approvals_needed == 1 else f"{ruling.approvals_needed} different people"
    yield f"approvals needed: {people}"
    if ruling.escalate_after is None:
        yield "escalates: never"
    else:
        yield f"escalates: after {ruling.escalate_after:g} s to {', '.join(ruling.escalate_to)}"
    yield f"expires: {'never' if ruling.expires_in is None else f'after {ruling.expires_in:g} s'}"


def _requester(ruling: Ruling, name: str | None, role: Role | None) -> str:
    """Whether who asks for the call may also decide it."""
    named = set(ruling.deciders or ("admin",))
    who = f"{name or 'such a user'} ({role})"
    if role is not None:
        if role != "agent" and named & {role, "requester", *([name] if name else [])}:
            return f"{who} may decide it"
        if role == "admin":
            return f"{who} may not decide it, admin or not: the rule names others"
        return f"{who} may not decide it"
    if "requester" in named:
        return "may decide it"
    if ruling.deciders is None:
        return "may decide it only as an admin"
    return "may decide it only if their name or role is among these; other admins can"
