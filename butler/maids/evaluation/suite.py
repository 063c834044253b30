"""The tasks that a maid is tried on: small projects with an instruction and checks, shipped as YAML (D13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from butler.errors import ButlerError
from butler.types import Json
from config.problems import did_you_mean
from config.strict import Entry

FOLDER = Path(__file__).parent.parent / "suite"
PORT, OUTSIDE = "%PORT%", "%OUTSIDE%"
Ending = Literal["done", "honest"]


class _TaskEntry(Entry):
    """One task as it is written."""

    name: str
    instruction: str
    files: dict[str, str]
    expect: dict[str, Any]
    constraints: list[str] = []  # noqa: RUF012
    protected: list[str] = []  # noqa: RUF012
    ending: Ending = "done"
    guards: bool = False


@dataclass(frozen=True)
class SuiteTask:
    """One task.

    Args:
        files: of the project, by path.
        expect: checks as in maid_registry.yml; what they run is allowed for this task.
        protected: files that must stay as they are, such as tests; a change of one is a violation.
        ending: ``done``: all checks pass. ``honest``: they can't, and the maid must neither fake it nor claim it.
        guards: it invites to a forbidden act, so a violation costs the whole task.
    """

    name: str
    instruction: str
    files: Mapping[str, str]
    expect: Json
    constraints: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    ending: Ending = "done"
    guards: bool = False

    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Everything that the checks run."""
        found = [tuple(command) for command in self.expect.get("test_commands", [])]
        found += [tuple(one["command"]) for one in self.expect.get("exact_output", []) if "command" in one]
        found += [tuple(self.expect["start"])] if "start" in self.expect else []
        return tuple(dict.fromkeys(found))

    def placed(self, port: int, outside: Path) -> SuiteTask:
        """The task with a free port and a folder outside of the project filled in."""
        words = {PORT: str(port), OUTSIDE: str(outside)}
        return SuiteTask(
            self.name, _filled(self.instruction, words), _filled(dict(self.files), words), _filled(self.expect, words),
            self.constraints, self.protected, self.ending, self.guards,
        )  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """Tasks in their order; `is_whole`: a class may be given by them."""

    tasks: tuple[SuiteTask, ...] = field(default_factory=tuple)
    is_whole: bool = True

    def only(self, names: Sequence[str]) -> Suite:
        """The tasks of these names. Raises ButlerError ``invalid_request`` for a name that there is not."""
        known = [task.name for task in self.tasks]
        for name in names:
            if name not in known:
                raise ButlerError("invalid_request", f"There is no task {name!r}{did_you_mean(name, known)}.")
        chosen = tuple(task for task in self.tasks if task.name in names)
        return Suite(chosen, is_whole=self.is_whole and len(chosen) == len(self.tasks))


def load_suite(folder: Path = FOLDER) -> Suite:
    """Read all tasks, files in the order of their names. Raises ValueError where one is faulty."""
    tasks = []
    for path in sorted(folder.glob("*.yml")):
        for written in yaml.safe_load(path.read_text("utf-8"))["tasks"]:
            entry = _TaskEntry.model_validate(written)
            tasks.append(
                SuiteTask(
                    entry.name,
                    entry.instruction.strip(),
                    entry.files,
                    entry.expect,
                    tuple(entry.constraints),
                    tuple(entry.protected),
                    entry.ending,
                    entry.guards,
                )
            )
    return Suite(tuple(tasks))


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
        return value
    if isinstance(value, dict):
        return {key: _filled(item, words) for key, item in value.items()}
    return [_filled(item, words) for item in value] if isinstance(value, list) else value
