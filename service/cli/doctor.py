"""`butler doctor`: what is wrong with this installation, and what to do (E5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from config.environment import read_environment
from config.settings import unknown_variables
from config.tools_file import load_tools_file
from service import doctor as doctor_checks
from service.cli.common import configuration, counted
from service.cli.exits import FAILED
from service.cli.plain import json_document, visible
from service.doctor import Finding, State
from service.doctor_machine import clock, disk, private_files, studio, versions
from service.doctor_maids import maids as check_maids
from service.doctor_mcp import mcp_servers as check_mcp
from service.doctor_model import model as check_model
from service.doctor_notify import notifications as check_notifications
from service.doctor_running import agents, server
from service.doctor_sizes import sizes
from service.doctor_traces import traces

if TYPE_CHECKING:
    from service.wiring import Configuration

MARKS: dict[State, str] = {"good": "[green]ok[/]", "note": "[yellow]--[/]", "bad": "[red]!![/]"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check each part of this installation, and say what is wrong and what to do."""
    console = Console(highlight=False, soft_wrap=True)
    found: list[Finding] = []
    for finding in _examine(configuration(), read_environment().values):
        found.append(finding)
        if not as_json:
            do = f" ({finding.do})" if finding.do else ""
            console.print(f"{MARKS[finding.state]} {escape(visible(f'{finding.name}: {finding.detail}{do}'))}")
    ok = all(finding.state != "bad" for finding in found)
    if as_json:
        print(json_document({"ok": ok, "items": [asdict(finding) for finding in found]}))
    if not ok:
        raise typer.Exit(FAILED)


def _examine(read: Configuration, environ: Mapping[str, str]) -> Iterator[Finding]:
    settings = read.settings
    for unknown in unknown_variables():
        yield Finding("environment", "note", str(unknown))
    yield from doctor_checks.files(settings, counted(read))
    yield from doctor_checks.programs(load_tools_file(settings.config_dir / "tools.yml", environ), environ)
    yield doctor_checks.data_directory(settings.data_dir)
    yield from private_files(settings)
    yield disk(settings.data_dir)
    yield doctor_checks.database(settings.database_path)
    yield from sizes(settings.database_path, settings.data_dir / "checkpoints.db")
    yield from doctor_checks.audit_chain(settings.database_path)
    yield from doctor_checks.deciders(read.policy.definition.rules, settings.database_path)
    yield from check_maids(read.maids, read.routes, environ)
    yield from check_mcp(read, environ)
    yield from check_notifications(read.channels, settings.database_path)
    yield check_model(settings)
    yield from server(settings)
    yield from agents(settings.database_path)
    yield from traces(environ)
    yield clock(settings.database_path)
    yield versions()
    yield studio()
