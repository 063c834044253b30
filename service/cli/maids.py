"""`butler maids`: the registry with what is wrong with it, and which route a task would take (D2, E1)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from butler.errors import ButlerError
from butler.maids.conditions import Facts, needs_files
from butler.maids.evaluation.records import adoption_of_all
from butler.maids.facts import health_of_all, project_files
from butler.maids.overview import maid_documents, root_documents, warnings
from butler.maids.projects import resolve_project
from butler.maids.routing import Routed, Tried
from butler.maids.routing import route as find_route
from butler.types import Json
from config.environment import read_environment
from config.maid_types import Adoption, MaidRegistryFile, RouteDefinition
from config.maids_file import read_maids_file
from config.problems import ConfigError, Problem
from config.routes_file import read_routes_file
from config.settings import Settings, load_settings
from service.cli.common import open_database
from service.cli.evaluate import evaluate_maid
from service.cli.exits import USAGE
from service.cli.maids_cancel import cancel
from service.cli.maids_remote import run, show
from service.cli.plain import json_document, visible

NONE = "\u2013"
COLUMNS = ("maid", "kind", "model", "provider", "enabled", "routes", "adoption", "program", "environment")
OUTCOMES: Mapping[str, str] = {"won": "won", "did_not_hold": "does not hold", "came_later": "comes later"}

maids_app = typer.Typer(
    help="Look at maids and routes, what is wrong with them, and how maids do.", no_args_is_help=True
)
maids_app.command("evaluate")(evaluate_maid)
maids_app.command("run")(run)
maids_app.command("show")(show)
maids_app.command("cancel")(cancel)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class Read:
    """Both files as far as they are sound, every fault of them, and the variables in force."""

    registry: MaidRegistryFile
    routes: tuple[RouteDefinition, ...]
    problems: tuple[Problem, ...]
    environ: Mapping[str, str]
    adoption: Mapping[str, Adoption]

    def sound(self) -> Read:
        """This. Raises ConfigError where there are faults."""
        if self.problems:
            raise ConfigError(self.problems)
        return self

    def document(self) -> Json:
        """The maids and project roots for JSON."""
        maids = maid_documents(self.registry, self.routes, self.environ, self.adoption)
        return {"maids": maids, "project_roots": root_documents(self.registry)}


def known_adoption(settings: Settings) -> Mapping[str, Adoption]:
    """What evaluations found each maid to be, by maid_id (D13); nothing where there is no database yet."""
    if not settings.database_path.exists():
        return {}
    with open_database(settings) as database:
        return database.write_now(adoption_of_all)


def read_files() -> Read:
    """Read both files of the configuration folder; faults are collected, also those of unreadable files."""
    settings = load_settings()
    registry = MaidRegistryFile()
    routes: tuple[RouteDefinition, ...] = ()
    problems: tuple[Problem, ...] = ()
    more: tuple[Problem, ...] = ()
    try:
        registry, problems = read_maids_file(settings.config_dir / "maid_registry.yml")
    except ConfigError as error:
        problems = error.problems
    try:
        path = settings.config_dir / "intent_maid_routes.yml"
        routes, more = read_routes_file(path, None if problems else registry)
    except ConfigError as error:
        more = error.problems
    return Read(registry, routes, (*problems, *more), read_environment().values, known_adoption(settings))


@maids_app.command("list")
def list_maids(as_json: AsJson = False) -> None:
    """List the maids with routes, adoption, program and variables, and the project roots."""
    document = read_files().sound().document()
    if as_json:
        print(json_document(document))
    else:
        _print(document)


@maids_app.command("check")
def check(as_json: AsJson = False) -> None:
    """Print the table, what would keep maids from working, and every fault of the files (exit status 2)."""
    read = read_files()
    document = read.document()
    told = [] if read.problems else list(warnings(read.registry, read.routes, read.environ))
    if as_json:
        most = {"most_at_once": read.registry.most_at_once}
        print(json_document({**document, **most, "faults": list(map(str, read.problems)), "warnings": told}))
    else:
        _print(document)
        print(f"maids at once: {read.registry.most_at_once}")
        for warning in told:
            print(f"warning: {visible(warning)}")
        if not read.problems:
            print(f"{len(read.registry.maids)} maid(s), {len(read.routes)} route(s); the files are sound.")
    sys.stdout.flush()
    for problem in read.problems:
        print(problem, file=sys.stderr)
    if read.problems:
        raise typer.Exit(USAGE)


@maids_app.command("route")
def route(
    intent: Annotated[str, typer.Argument(help="The intent of a task.")],
    instruction: Annotated[str, typer.Option(help="What is to be done; its length counts.")] = "",
    project: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="The folder that the task is about.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", help="A parameter of the task.", metavar="NAME=VALUE")
    ] = None,
    maid: Annotated[str | None, typer.Option(help="Name the maid, as a person may.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell which route a task would take and why; nothing is started. Exit status 2 for an unknown intent."""
    read = read_files().sound()
    parameters = dict(_parameter(text) for text in param or ())
    notes = []
    folder = None
    if project is not None:
        folder = project.resolve()
        try:
            resolve_project(str(folder), read.registry.project_roots)
        except ButlerError as error:
            notes.append(f"such a task would be refused: {error.detail}")
    files = None
    if folder is not None and any(needs_files(item) for item in read.routes if item.intent == intent):
        files = asyncio.run(project_files(folder))
    facts = Facts(
        intent,
        instruction,
        folder,
        files,
        parameters,
        health=health_of_all(read.registry, read.environ),
        adoption=read.adoption,
        maid_id=maid,
    )
    routed = find_route(facts, read.routes, read.registry)
    if as_json:
        print(json_document({**routed.document(), "notes": notes}))
    else:
        for line in (*_told(routed), *(f"note: {note}" for note in notes)):
            print(visible(line))
    if routed.outcome == "unknown_intent":
        raise typer.Exit(USAGE)


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"expected NAME=VALUE, got {text!r}", param_hint="--param")
    return name, value


def _told(routed: Routed) -> Iterator[str]:
    yield f"maid: {routed.maid.maid_id if routed.maid else 'none, it is not delegated'}"
    yield f"reason: {routed.reason}"
    yield from map(_tried, routed.trail)


def _tried(tried: Tried) -> str:
    goal = tried.route.maid_id or "not delegated"
    return f"route: {tried.route.source} → {goal}: {OUTCOMES[tried.outcome]}: {tried.reason}"


def _print(document: Json) -> None:
    out = Console(highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        # In a pipe every maid stays on a line of its own.
        out = Console(highlight=False, markup=False, emoji=False, width=1_000)
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for maid in document["maids"]:
        table.add_row(*map(visible, _cells(maid)))
    if document["maids"]:
        out.print(table)
    else:
        print("There are no maids.")
    for root in document["project_roots"]:
        print(visible(f"project root: {root['path']}{'' if root['exists'] else ' (there is no such folder)'}"))


def _cells(maid: Json) -> Iterable[str]:
    variables = [item["name"] + ("" if item["set"] else " (not set)") for item in maid["env"]]
    return (
        maid["maid_id"],
        maid["kind"],
        maid["model"] or NONE,
        maid["provider"] or NONE,
        "yes" if maid["enabled"] else "no",
        ", ".join(maid["intents"]) or NONE,
        maid["adoption"] or NONE,
        maid["program"] or "not found",
        ", ".join(variables) or NONE,
    )
