"""`butler policy`: try the rules without running anything."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from config.problems import did_you_mean
from service.cli.common import FAILED, configuration, counted, json_object

policy_app = typer.Typer(help="Try the policy without running anything.", no_args_is_help=True)


@policy_app.command("test")
def policy_test(
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="The call's arguments as a JSON object.")] = "{}",
) -> None:
    """Print the verdict on a call, the winning rule and every rule that matched; grants are not asked."""
    args = json_object(arguments)
    read = configuration()
    spec = read.tools.get(tool)
    if spec is None:
        hint = did_you_mean(tool, read.tools.names())
        print(f"note: no tool {tool!r} is declared{hint}", file=sys.stderr)
    else:
        for fault in read.tools.validate(tool, args):
            print(f"note: such a call would not get this far: {fault}", file=sys.stderr)
    found = read.policy.explain(tool, args, own_verdict=spec.verdict if spec else None)
    ruling = found.ruling
    print(f"verdict: {ruling.verdict}")
    print(f"rule: {ruling.rule}" + (f" ({found.winner.source})" if found.winner else ""))
    print(f"reason: {ruling.reason}")
    print(f"risk: {ruling.risk}")
    if ruling.verdict == "approve":
        named = ruling.deciders or ("admin",)
        print(f"deciders: {', '.join(named)}" + ("" if "admin" in named else "; admins can always decide"))
        print(f"expires: {'never' if ruling.expires_in is None else f'after {ruling.expires_in:g} s'}")
    for rule in found.matched:
        print(f"matched: {rule.name} ({rule.source}) {rule.verdict}")
    if not found.matched:
        print("matched: no rule")


@policy_app.command("check")
def policy_check() -> None:
    """Read the policy and name rules that can never win."""
    read = configuration()
    useless = read.policy.useless_rules(read.tools.names())
    for fault in useless:
        print(fault)
    if useless:
        raise typer.Exit(FAILED)
    print(f"{counted(read)}; no rule is beaten by another one.")
