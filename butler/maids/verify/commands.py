"""Commands of a check: equal to an entry of the allowlist item by item, no shell, ended with all they started (D8)."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from butler.maids.verify.children import FLOOD, Child, ProgramMissing, Wrap
from butler.maids.verify.findings import CheckError, Finding, bounded, compared

EXACT_LIMIT = 1024 * 1024
"""Bytes of standard output that are held against an exact text."""


@dataclass(frozen=True)
class Surroundings:
    """Where and how the commands of a verification run; `mark` is what their processes are found by.

    `wrap` puts a command into a sandbox.
    """

    tree: Path
    environment: Mapping[str, str]
    mark: str
    allowed: tuple[tuple[str, ...], ...]
    wrap: Wrap | None = None


def require_allowed(command: tuple[str, ...], allowed: Iterable[tuple[str, ...]]) -> None:
    """Refuse an argument list that equals no entry item by item.

    Raises:
        CheckError: it is not allowed.
    """
    if not command or tuple(command) not in {tuple(entry) for entry in allowed}:
        raise CheckError(f"The command {shlex.join(command)!r} is no entry of allowed_commands.")


async def check_command(around: Surroundings, command: tuple[str, ...], seconds: float) -> Finding:
    """Run a command that has to exit with 0.

    Raises:
        CheckError: it is not allowed or can't be started.
    """
    ran = await _run(around, command, seconds, 0)
    if isinstance(ran, Finding):
        return ran
    child, fault = ran
    output = _output(child)
    return Finding("failed", _with(fault, output)) if fault else Finding("passed", _with("Exit status 0.", output))


async def check_exact_command(around: Surroundings, command: tuple[str, ...], expect: str, seconds: float) -> Finding:
    """Run a command that has to exit with 0 and whose whole standard output has to equal a text.

    Raises:
        CheckError: it is not allowed or can't be started.
    """
    ran = await _run(around, command, seconds, EXACT_LIMIT)
    if isinstance(ran, Finding):
        return ran
    child, fault = ran
    if fault:
        return Finding("failed", _with(fault, _output(child)))
    found = compared(expect, bytes(child.stdout.head), is_cut=child.stdout.is_cut)
    errors = child.stderr.tail()
    if found.outcome == "failed" and errors:
        return Finding("failed", bounded(f"{found.actual}\nStandard error ended with:\n{errors}"))
    return found


async def _run(
    around: Surroundings, command: tuple[str, ...], seconds: float, keep: int
) -> tuple[Child, str] | Finding:
    """Run to the end; give the child and what is wrong with how it ended, or a finding where it was not there."""
    require_allowed(command, around.allowed)
    try:
        child = await Child.start(command, around.tree, around.environment, around.mark, keep=keep, wrap=around.wrap)
    except ProgramMissing as missing:
        if missing.in_tree:
            return Finding("failed", str(missing))
        raise
    try:
        async with asyncio.timeout(seconds):
            await child.wait()
        fault = _fault(child)
    except TimeoutError:
        fault = f"It took longer than {seconds:g} s and was ended with all its processes."
    finally:
        await child.end()
    return child, fault


def _fault(child: Child) -> str:
    """What is wrong with how it ended; nothing where it ended well."""
    exit_code = child.exit_code
    if not child.has_ended:
        return f"It printed more than {FLOOD} bytes and was ended."
    if exit_code is None:
        return "It was ended by others."
    if exit_code >= 0:
        return f"Exit status {exit_code}." if exit_code else ""
    try:
        return f"Ended by {signal.Signals(-exit_code).name}."
    except ValueError:
        return f"Ended by signal {-exit_code}."


def _output(child: Child) -> str:
    parts = [
        f"{name} ended with:\n{text}"
        for name, text in (("Standard output", child.stdout.tail()), ("Standard error", child.stderr.tail()))
        if text.strip()
    ]
    if child.left_behind:
        parts.insert(0, f"Processes that it left behind and that were ended: {child.left_behind}.")
    return "\n".join(parts)


def _with(head: str, output: str) -> str:
    return bounded(f"{head}\n{output}" if output else f"{head} It printed nothing.")
