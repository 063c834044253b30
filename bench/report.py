"""The rows of the result and the page they are written to."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

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
    judged = [(section, row) for section in sections for row in section.rows if row.met is not None]
    missed = [f"{section.title}: {row.what}" for section, row in judged if row.met is False]
    lines = [
        "# Performance",
        "",
        "Written by `python -m bench`; don't edit. Butler and a plain LangGraph server",
        "(`bench/baseline/`) are measured in the same run, in alternating blocks, against the same",
        "scripted model. *x* is Butler over baseline: the median of the ratios of neighbouring blocks,",
        "which holds on a noisy machine where single numbers don't. The *floor* is the load generator",
        "calling the model itself; *added* means above the floor. The tool is the same shell script on",
        "both sides, so both pay for a child process; CPU is that of the server process alone unless",
        "children are named.",
        "",
        f"{_machine()}{' Short run (`--quick`).' if quick else ''} {seconds:.0f} s.",
        "",
        f"**{len(judged) - len(missed)} of {len(judged)} targets met.**"
        + (" Missed: " + "; ".join(missed) + "." if missed else ""),
    ]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.note, ""]
        lines += ["| what | baseline | Butler | x | target | |", "|---|---|---|---|---|---|"]
        lines += [_line(row) for row in section.rows]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    ratio = _ratio(row) if row.compared is None or row.absolute else row.compared
    target = ""
    if row.target is not None:
        sign = "≤" if row.bound == "at most" else "≥"
        target = f"{sign} {row.target:g} {row.unit}".rstrip() if row.absolute else f"x {sign} {row.target:g}"
    verdict = {True: "met", False: "**MISSED**", None: ""}[row.met]
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
    return f"{day}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."
