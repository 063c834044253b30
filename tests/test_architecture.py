"""The house rules that a reviewer would otherwise have to remember: floors, sizes, silence, packaging."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("config", "butler", "nodes", "graph", "service", "server")  # from the ground up
UNLIMITED = ("tests", "bench")  # may import anything, and nothing imports them
WEB = frozenset({"fastapi", "starlette", "uvicorn", "sse_starlette"})
MAX_LINES = 400
SKIPPED_DIRS = frozenset({"__pycache__", "build", "node_modules"})
TEXT_SUFFIXES = frozenset({".py", ".md", ".toml", ".yml", ".yaml", ".json", ".txt", ".html", ".js", ".css"})
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:root|home/\w+|Users/\w+|workspace|mnt)(?:/|(?=[\s\"'`:,)]|$))")


def _files() -> Iterator[Path]:
    """Every file of the project; hidden folders other than .ci hold no sources."""
    pending = [ROOT]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_file():
                yield path
            elif path.name not in SKIPPED_DIRS and (path.name == ".ci" or not path.name.startswith(".")):
                pending.append(path)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SOURCES = [path for path in _files() if path.suffix == ".py"]
ROOMS = [path for path in SOURCES if _name(path).split("/")[0].removesuffix(".py") in FLOORS]
TEXTS = [
    path
    for path in _files()
    if path.suffix in TEXT_SUFFIXES or path.name in {"Makefile", "Dockerfile"} or path.parent.name == ".ci"
]


def imported_modules(tree: ast.AST, name: str) -> set[str]:
    """Give the absolute names of all modules imported anywhere in the file `name`, also inside functions."""
    package = name.removesuffix(".py").split("/")[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            found.add(".".join([*base, *([node.module] if node.module else [])]))
    return found


def floor_faults(source: str, name: str) -> list[str]:
    """Name every import in the file `name` that reaches above its floor."""
    own = name.split("/")[0].removesuffix(".py")
    level = FLOORS.index(own)
    tops = {module.split(".")[0] for module in imported_modules(ast.parse(source), name)}
    forbidden = {*FLOORS[level + 1 :], *UNLIMITED}
    if own not in {"service", "server"}:
        forbidden |= WEB
    if own in {"config", "butler"}:
        forbidden.add("langgraph")
    return [f"{name} imports {top!r}, which {own!r} may not" for top in sorted(tops & forbidden)]


def silent_faults(source: str, name: str) -> list[str]:
    """Name every place of a file that swallows errors without a word."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                faults.append(f"{name}:{node.lineno}: bare except")
            if all(_says_nothing(statement) for statement in node.body):
                faults.append(f"{name}:{node.lineno}: except that only passes")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"suppress", "contextlib.suppress"}:
            wide = {"Exception", "BaseException"} & {ast.unparse(argument) for argument in node.args}
            faults.extend(f"{name}:{node.lineno}: suppress({kind})" for kind in sorted(wide))
    return faults


def _says_nothing(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass) or constant


@pytest.mark.parametrize("path", ROOMS, ids=_name)
def test_a_room_imports_only_from_floors_below(path: Path) -> None:
    assert floor_faults(path.read_text("utf-8"), _name(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_source_file_is_short_and_swallows_no_error(path: Path) -> None:
    source = path.read_text("utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    assert silent_faults(source, _name(path)) == []


def test_every_package_of_the_tree_is_listed_in_pyproject_and_no_other() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    packages = {_name(path.parent).replace("/", ".") for path in ROOMS if path.name == "__init__.py"}
    modules = {path.stem for path in ROOMS if path.parent == ROOT}
    assert sorted(listed["packages"]) == sorted(packages)
    assert sorted(listed["py-modules"]) == sorted(modules)


def test_no_file_names_a_path_of_one_machine() -> None:
    faults = [
        f"{_name(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("config/settings.py", "import butler.errors"),
        ("butler/models.py", "from nodes.think import think"),
        ("butler/tools/a.py", "def f():\n    import langgraph.graph"),
        ("nodes/act.py", "from graph import state"),
        ("graph/build.py", "from fastapi import FastAPI"),
        ("service/auth.py", "import server"),
        ("server.py", "from tests.helpers import wait"),
    ],
)
def test_an_import_from_a_floor_above_is_found(name: str, source: str) -> None:
    assert len(floor_faults(source, name)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("server.py", "from service.app import build\nimport uvicorn"),
        ("nodes/act.py", "from butler.types import Json\nfrom . import think\nfrom .think import x"),
        ("butler/approvals/policy.py", "from ..errors import ButlerError\nimport config.settings"),
    ],
)
def test_an_import_from_below_or_beside_is_fine(name: str, source: str) -> None:
    assert floor_faults(source, name) == []


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    f()\nexcept:\n    raise",
        "try:\n    f()\nexcept ValueError:\n    pass",
        "try:\n    f()\nexcept ValueError:\n    ...",
        "with contextlib.suppress(Exception):\n    f()",
    ],
)
def test_a_swallowed_error_is_found(source: str) -> None:
    assert len(silent_faults(source, "x.py")) == 1


def test_a_machine_path_is_found_and_a_route_is_not() -> None:
    home = "/" + "home/ann/x"
    assert MACHINE_PATH.search(f'DATA = "{home}"')
    assert MACHINE_PATH.search("cd /" + "workspace/main")
    assert not MACHINE_PATH.search("GET /threads/home and ~/home, docs/home/a.md")
