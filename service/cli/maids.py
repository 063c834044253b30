"""`butler maids`: the registry with what is wrong with it, and which route a task would take (D2, E1)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from butler.errors import ButlerError
from butler.maids.conditions import Facts, needs_files
from butler.maids.evaluation.records import adoption_of_all
from butler.maids.facts import health_of_all, project_files
from butler.maids.overview import maid_documents, project_documents, root_documents, warnings
from butler.maids.projects import project_of, resolve_project
from butler.maids.routing import Routed, Tried
from butler.maids.routing import route as find_route
from butler.types import Json
from config.environment import read_environment
from config.maid_types import Adoption, MaidRegistryFile, RouteDefinition
from config.maids_file import read_maids_file
from config.problems import ConfigError, Problem
from config.projects_file import ProjectDefinition, read_projects_file
from config.routes_file import read_routes_file
from config.settings import Settings, load_settings
from service.cli.common import open_database
from service.cli.completing import intents, maid_ids
from service.cli.evaluate import evaluate_maid
from service.cli.exits import USAGE
from service.cli.maids_cancel import cancel
from service.cli.maids_clean import clean
from service.cli.maids_remote import run, show
from service.cli.plain import harmless_lines, json_document, visible
from service.cli.projects import folder_of, lines_of

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
maids_app.command("clean")(clean)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class Read:
    """Both files as far as they are sound, every fault of them, and the variables in force."""

    registry: MaidRegistryFile
    routes: tuple[RouteDefinition, ...]
    problems: tuple[Problem, ...]
    environ: Mapping[str, str]
    adoption: Mapping[str, Adoption]
    projects: tuple[ProjectDefinition, ...] = ()
    is_whole: bool = True
    """Whether nothing is missing in the registry that stands in its file."""

    def sound(self) -> Read:
        """This. Raises ConfigError where there are faults."""
        if self.problems:
            raise ConfigError(self.problems)
        return self

    def document(self) -> Json:
        """The maids and project roots for JSON."""
        maids = maid_documents(self.registry, self.routes, self.environ, self.adoption)
        for one in self.projects:
            own = replace(one.registry, maids=one.own_maids)
            maids += maid_documents(own, one.routes, {**self.environ, **one.variables}, self.adoption)
        projects = project_documents(self.projects)
        return {"maids": maids, "project_roots": root_documents(self.registry), "projects": projects}

    def ground(self, folder: Path | None) -> ProjectDefinition:
        """What holds for tasks on a folder: its project, or the house alone."""
        found = project_of(folder, self.projects) if folder is not None else None
        return found or ProjectDefinition("", folder or Path(), Path(), self.registry, self.routes)


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
    projects: tuple[ProjectDefinition, ...] = ()
    try:
        projects, last = read_projects_file(settings.config_dir / "projects.yml", registry, routes)
    except ConfigError as error:
        last = error.problems
    # A registry with faults lacks maids and roots that projects may name.
    found = (*problems, *more, *(() if problems else last))
    environ, adoption = read_environment().values, known_adoption(settings)
    return Read(registry, routes, found, environ, adoption, projects, is_whole=not problems)


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
        _print(document, is_whole=read.is_whole)
        if read.is_whole:
            print(f"maids at once: {read.registry.most_at_once}")
        for warning in told:
            print(f"warning: {visible(warning)}")
        if not read.problems:
            print(f"{len(read.registry.maids)} maid(s), {len(read.routes)} route(s); the files are sound.")
    sys.stdout.flush()
    for problem in read.problems:
        print(harmless_lines(str(problem)), file=sys.stderr)
    if read.problems:
        raise typer.Exit(USAGE)


@maids_app.command("route")
def route(
    intent: Annotated[str, typer.Argument(help="The intent of a task.", autocompletion=intents)],
    instruction: Annotated[str, typer.Option(help="What is to be done; its length counts.")] = "",
    project: Annotated[
        str | None, typer.Option(help="The folder that the task is about, or its project's name.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", help="A parameter of the task.", metavar="NAME=VALUE")
    ] = None,
    maid: Annotated[str | None, typer.Option(help="Name the maid, as a person may.", autocompletion=maid_ids)] = None,
    as_json: AsJson = False,
) -> None:
    """Tell which route a task would take and why; nothing is started. Exit status 2 for an unknown intent."""
    read = read_files().sound()
    parameters = dict(_parameter(text) for text in param or ())
    notes = []
    folder = None
    if project is not None:
        folder = folder_of(project, read.projects)
        try:
            resolve_project(str(folder), read.registry.project_roots)
        except ButlerError as error:
            notes.append(f"such a task would be refused: {error.detail}")
    files, ground = None, read.ground(folder)
    if folder is not None and any(needs_files(item) for item in ground.routes if item.intent == intent):
        files = asyncio.run(project_files(folder))
    facts = Facts(
        intent,
        instruction,
        folder,
        files,
        parameters,
        health=health_of_all(ground.registry, {**read.environ, **ground.variables}),
        adoption=read.adoption,
        maid_id=maid,
    )
    routed = find_route(facts, ground.routes, ground.registry)
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


def _print(document: Json, *, is_whole: bool = True) -> None:
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
        print("There are no maids." if is_whole else "No maid could be read; the faults below say why.")
    if document["maids"] and not is_whole:
        print("Maids with a fault are not shown; the faults below say why.")
    for root in document["project_roots"]:
        print(visible(f"project root: {root['path']}{'' if root['exists'] else ' (there is no such folder)'}"))
    for line in lines_of(document["projects"]):
        print(line)


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
