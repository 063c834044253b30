"""projects.yml: what each project that maids work on brings along (D12)."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from dotenv.parser import parse_stream
from pydantic import Field

from config.maid_profile import Text
from config.maid_types import MaidDefinition, MaidRegistryFile, RouteDefinition
from config.maids_file import read_maids_file
from config.problems import ConfigError, Problem, did_you_mean, label, not_looked_up
from config.routes_file import read_routes_file
from config.strict import Checker, Entry
from config.yaml_source import Loc, read_yaml

T = TypeVar("T")
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
REGISTRY, ROUTES = "maid_registry.yml", "intent_maid_routes.yml"
MOST_ENV_BYTES = 256 * 1024
THE_SERVERS = ("PATH",)
"""Which programs are found is not for a file of the project to say."""


class ProjectEntry(Entry):
    """One project of the file."""

    name: str = Field(pattern=NAME, description="Unique; `project_root` of a task may be this name")
    project_root: Text = Field(description="Its folder, absolute or ~, inside project_roots of maid_registry.yml")
    config_dir: Text | None = Field(
        None, description="Folder with its own maid_registry.yml and intent_maid_routes.yml; relative to this file"
    )
    env_path: Text | None = Field(
        None, description="File of NAME=value; its maids get those that their row names. Relative to project_root"
    )
    issue_template_dir: Text | None = Field(
        None, description="Folder with INTENT.md or default.md, which maids are given. Relative to project_root"
    )
    session_logs_dir: Text | None = Field(
        None, description="Where a record of each finished task is written. Relative to project_root"
    )


class ProjectsDocument(Entry):
    """The whole file, for the published schema."""

    projects: list[ProjectEntry] = Field([])


@dataclass(frozen=True)
class ProjectDefinition:
    """One checked project; paths are absolute with links resolved.

    `registry` has the house's maids and its own, `routes` its own before the house's. `own_maids` are those of its
    `config_dir`. `variables` are what `env_path` holds; `folder` is where scripts of allowed commands may lie.
    """

    name: str
    project_root: Path
    folder: Path
    registry: MaidRegistryFile
    routes: tuple[RouteDefinition, ...]
    own_maids: tuple[MaidDefinition, ...] = ()
    config_dir: Path | None = None
    env_path: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    issue_template_dir: Path | None = None
    session_logs_dir: Path | None = None
    source: str = ""


def load_projects_file(
    path: Path, registry: MaidRegistryFile, routes: Sequence[RouteDefinition], *, cwd: Path | None = None
) -> tuple[ProjectDefinition, ...]:
    """Read projects.yml and what its projects point to; an absent file has no projects.

    Raises:
        ConfigError: one problem per fault, of every file.
    """
    projects, problems = read_projects_file(path, registry, routes, cwd=cwd)
    if problems:
        raise ConfigError(problems)
    return projects


def read_projects_file(
    path: Path, registry: MaidRegistryFile, routes: Sequence[RouteDefinition], *, cwd: Path | None = None
) -> tuple[tuple[ProjectDefinition, ...], tuple[Problem, ...]]:
    """The projects without any fault, and every fault.

    Raises:
        ConfigError: the file can't be read at all.
    """
    checker = Checker(read_yaml(path, cwd))
    reader = _Reader(checker, path.absolute().parent, registry, tuple(routes), cwd)
    found = [reader.project(loc, entry) for loc, entry in _entries(checker)]
    problems = sorted(checker.problems, key=lambda problem: problem.line)
    return tuple(one for one in found if one is not None), (*problems, *reader.elsewhere)


def _entries(checker: Checker) -> Iterator[tuple[Loc, ProjectEntry]]:
    for loc, raw in checker.entries("projects", ProjectsDocument):
        entry = checker.model(ProjectEntry, raw, loc)
        if entry is not None:
            yield loc, entry


class _Reader:
    """Reads one project after the other; faults of files other than projects.yml are in `elsewhere`."""

    def __init__(
        self, checker: Checker, folder: Path, registry: MaidRegistryFile, routes: tuple[RouteDefinition, ...],
        cwd: Path | None,
    ) -> None:  # fmt: skip
        self._checker, self._folder, self._registry, self._routes, self._cwd = checker, folder, registry, routes, cwd
        self._names: dict[str, str] = {}
        self._places: dict[Path, str] = {}
        self._maids = {maid.maid_id: maid.source for maid in registry.maids}
        self.elsewhere: list[Problem] = []

    def project(self, loc: Loc, entry: ProjectEntry) -> ProjectDefinition | None:
        """The project; None where it has a fault, which is noted."""
        before = len(self._checker.problems) + len(self.elsewhere)
        root = self._root(loc, entry)
        source = self._checker.place((*loc, "name"))
        if (first := self._names.setdefault(entry.name, source)) != source:
            self._checker.fault((*loc, "name"), f"the project {entry.name!r} is already defined at {first}")
        if root is None:
            return None
        if (first := self._places.setdefault(root, source)) != source:
            self._checker.fault((*loc, "project_root"), f"the project at {first} has this folder already")
        made = ProjectDefinition(entry.name, root, self._folder, self._registry, self._routes, source=source)
        if entry.config_dir is not None:
            made = self._configured(loc, made, entry.config_dir)
        if (env_path := self._below((*loc, "env_path"), root, entry.env_path)) is not None:
            made = replace(made, env_path=env_path, variables=self._variables((*loc, "env_path"), env_path))
        templates = self._below((*loc, "issue_template_dir"), root, entry.issue_template_dir)
        if templates is not None:
            if not templates.is_dir():
                self._checker.fault((*loc, "issue_template_dir"), f"there is no folder {templates}")
            made = replace(made, issue_template_dir=templates)
        if (logs := self._below((*loc, "session_logs_dir"), root, entry.session_logs_dir)) is not None:
            if logs.exists() and not logs.is_dir():
                self._checker.fault((*loc, "session_logs_dir"), f"{logs} is no folder")
            made = replace(made, session_logs_dir=logs)
        return made if len(self._checker.problems) + len(self.elsewhere) == before else None

    def _root(self, loc: Loc, entry: ProjectEntry) -> Path | None:
        place = (*loc, "project_root")
        try:
            path = Path(entry.project_root).expanduser()
            root = path.resolve() if path.is_absolute() else None
        except (RuntimeError, OSError, ValueError) as error:
            self._checker.fault(place, not_looked_up(error))
            return None
        if root is None:
            told = f"{entry.project_root!r} is relative; write an absolute path, or one that begins with ~"
            self._checker.fault(place, told)
        elif not _inside(root, self._registry.project_roots):
            self._checker.fault(place, f"{root} is not inside any of the project_roots of {REGISTRY}; add it there")
        return root

    def _below(self, place: Loc, folder: Path, written: str | None) -> Path | None:
        """The path that is written, from `folder` on; None where none is, and where it has a fault, which is noted."""
        if written is None:
            return None
        try:
            path = (folder / Path(written).expanduser()).resolve()
            path.exists()
        except (RuntimeError, OSError, ValueError) as error:
            self._checker.fault(place, not_looked_up(error))
            return None
        return path

    def _configured(self, loc: Loc, made: ProjectDefinition, written: str) -> ProjectDefinition:
        place = (*loc, "config_dir")
        folder = self._below(place, self._folder, written)
        if folder is None:
            return made
        if not folder.is_dir():
            self._checker.fault(place, f"there is no folder {folder}")
            return made
        if _inside(folder, self._registry.project_roots):
            # It says which programs are started: work that a maid brings back must not be able to change it.
            self._checker.fault(place, f"{folder} is inside project_roots, where maids work; keep it elsewhere")
            return made
        own = self._read(lambda: read_maids_file(folder / REGISTRY, cwd=self._cwd), MaidRegistryFile())
        file = label(folder / REGISTRY, self._cwd)
        for key, wrong in (("project_roots", own.project_roots), ("most_at_once", own.most_at_once != 4)):
            if wrong:
                self.elsewhere.append(Problem(file, 1, key, f"is for the house's own {REGISTRY} alone"))
        for maid in own.maids:
            if (first := self._maids.setdefault(maid.maid_id, maid.source)) != maid.source:
                where, _, line = maid.source.rpartition(":")
                told = f"the maid {maid.maid_id!r} is already defined at {first}"
                self.elsewhere.append(Problem(where, int(line), "maid_id", told))
        house = self._registry
        registry = replace(
            house,
            maids=(*house.maids, *own.maids),
            allowed_commands=(*house.allowed_commands, *own.allowed_commands),
            allowed_hosts=(*house.allowed_hosts, *own.allowed_hosts),
        )
        routes = self._read(
            lambda: read_routes_file(folder / ROUTES, registry, cwd=self._cwd), tuple[RouteDefinition, ...]()
        )
        return replace(
            made, config_dir=folder, folder=folder, registry=registry, routes=(*routes, *self._routes),
            own_maids=own.maids,
        )  # fmt: skip

    def _read(self, read: Callable[[], tuple[T, tuple[Problem, ...]]], empty: T) -> T:
        try:
            found, problems = read()
        except ConfigError as error:
            self.elsewhere += error.problems
            return empty
        self.elsewhere += problems
        return found

    def _variables(self, place: Loc, path: Path) -> dict[str, str]:
        file, found = label(path, self._cwd), dict[str, str]()
        try:
            if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > MOST_ENV_BYTES:
                self._checker.fault(place, f"{path} must be a file of at most {MOST_ENV_BYTES // 1024} KiB")
                return found
            with path.open(encoding="utf-8-sig") as lines:
                bindings = list(parse_stream(lines))
        except (OSError, UnicodeDecodeError) as error:
            self._checker.fault(place, f"{path} can't be read: {getattr(error, 'strerror', None) or error}")
            return found
        for binding in bindings:
            if binding.error or (binding.key is not None and binding.value is None):
                line = binding.original.line
                self.elsewhere.append(Problem(file, line, binding.key or "line", "expected NAME=value"))
            elif binding.key not in (None, *THE_SERVERS) and binding.value is not None:
                found[str(binding.key)] = binding.value
        return found


def _inside(path: Path, roots: Iterable[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def unknown_project(name: str, projects: Iterable[ProjectDefinition]) -> str:
    """What to say of a name that no project has."""
    known = [project.name for project in projects]
    return f"There is no project {name!r} in projects.yml{did_you_mean(name, known)}; known are {', '.join(known)}."
