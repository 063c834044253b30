"""The rows of the result and the page they are written to."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

_HEADING = "\n\n## "
_MISSED = "**MISSED**"
_PACKAGES = (
    "langgraph",
    "langchain",
    "langchain-openai",
    "langgraph-checkpoint-sqlite",
    "fastapi",
    "uvicorn",
)


@dataclass(frozen=True)
class Row:
    """One measured quantity.

    Args:
        compared: the number the target is about: a ratio to the baseline, or Butler's own value.
        target: the bound, None for a row that only informs.
        bound: whether `compared` must stay below or reach the target.
        absolute: `compared` is Butler's own value and not a ratio.
    """

    what: str
    baseline: float | None
    butler: float | None
    unit: str
    compared: float | None = None
    target: float | None = None
    bound: Literal["at most", "at least"] = "at most"
    absolute: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None where there is none or nothing to compare."""
        if self.target is None or self.compared is None:
            return None
        return self.compared <= self.target if self.bound == "at most" else self.compared >= self.target


@dataclass
class Section:
    """The rows of one workload, and what a reader must know to read them."""

    title: str
    note: str
    rows: list[Row] = field(default_factory=list)


def markdown(sections: Sequence[Section], *, quick: bool, seconds: float) -> str:
    """The whole page."""
    tables = {section.title: _table(section, section.note) for section in sections}
    lines = [
        "# Performance",
        "",
        "Written by `python -m bench`; don't edit. Butler and a plain LangGraph server",
        "(`bench/baseline/`) are measured in the same run, in alternating blocks, against the same",
        "scripted model. *x* is Butler over baseline: the median of the ratios of neighbouring blocks,",
        "which holds on a noisy machine where single numbers don't. The *floor* is the load generator",
        "calling the model itself; *added* means above the floor. The tool is the same shell script on",
        "both sides, so both pay for a child process; CPU is that of the server process alone unless",
        "children are named. `python -m bench --only approvals --only inbox --merge` measures parts anew.",
        "",
        f"{_machine()}{' Short run (`--quick`).' if quick else ''} {seconds:.0f} s.",
        "",
        _verdict(tables),
    ]
    return _page("\n".join(lines), tables)


def merged(page: str, sections: Sequence[Section], *, quick: bool) -> str:
    """The page with these sections instead of its own of the same title; new ones come last."""
    head, *parts = page.rstrip("\n").split(_HEADING)
    tables = dict(part.split("\n\n", 1) for part in parts)
    for section in sections:
        own = f"{section.note} Measured on its own: {_machine()}{' Short run.' if quick else ''}"
        tables[section.title] = _table(section, own)
    kept, _, _ = head.rpartition("\n\n")
    return _page(f"{kept}\n\n{_verdict(tables)}", tables)


def _page(head: str, tables: Mapping[str, str]) -> str:
    return _HEADING.join([head, *(f"{title}\n\n{table}" for title, table in tables.items())]) + "\n"


def _table(section: Section, note: str) -> str:
    head = ["| what | baseline | Butler | x | target | |", "|---|---|---|---|---|---|"]
    return "\n".join([note, "", *head, *(_line(row) for row in section.rows)])


def _verdict(tables: Mapping[str, str]) -> str:
    """How many targets were met, and which were not, as the tables say."""
    found = [(title, line) for title, table in tables.items() for line in table.splitlines() if line.startswith("| ")]
    met = sum(line.endswith("| met |") for _, line in found)
    missed = [
        f"{title}: {line.split(' | ')[0].strip('| ')}" for title, line in found if line.endswith(f"| {_MISSED} |")
    ]
    return f"**{met} of {met + len(missed)} targets met.**" + (f" Missed: {'; '.join(missed)}." if missed else "")


def _line(row: Row) -> str:
    ratio = _ratio(row) if row.compared is None or row.absolute else row.compared
    target = ""
    if row.target is not None:
        sign = "≤" if row.bound == "at most" else "≥"
        target = f"{sign} {row.target:g} {row.unit}".rstrip() if row.absolute else f"x {sign} {row.target:g}"
    verdict = {True: "met", False: _MISSED, None: ""}[row.met]
    cells = (
        row.what,
        _number(row.baseline, row.unit),
        _number(row.butler, row.unit),
        _number(ratio, ""),
        target,
    )
    return f"| {' | '.join(cells)} | {verdict} |"


def _ratio(row: Row) -> float | None:
    return row.butler / row.baseline if row.baseline and row.butler is not None else None


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if value == int(value) else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f} {unit}".rstrip()


def _machine() -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    busy = f"load {os.getloadavg()[0]:.1f} at the end"
    return f"{day}, {os.cpu_count()} cores, {busy}, Python {platform.python_version()}, {versions}."
