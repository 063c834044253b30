"""The hardened prompt: place, task, constraints, what is forbidden, substitutes, and the checks to come (D5)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from butler.maids.contract import Task
from butler.maids.quoting import delimited, one_line
from butler.redact import Redactor
from config.maid_types import VerificationProfile

MOST_CHECKS = 40
LONGEST_EXPECTED = 2_000

_OPENING = """\
You work alone on one task in one project folder. Nobody reads along and nobody can answer you.
Do the whole task now, with your tools, by changing files in the project root."""
_FORBIDDEN = """\
- Do not install, update or remove packages or programs (pip, npm, apt and the like). Use what is there.
- Do not leave the project root: read, write and run nothing outside of it, and make no links that lead out.
- Do not ask questions and do not wait for a confirmation. Where something is open, decide and go on.
- Do not start servers, watchers or anything else that does not end by itself.
- Do not commit, push, switch branches or change the history. Leave your changes in the files.
- Do not weaken, skip or delete tests or checks to make them pass.
- Do not print tool calls as text, and do not repeat a call that gave you nothing new."""
_FORM = "What it asks of every task holds for this one too; where it contradicts the task, the task counts."
_CLOSING = """\
When everything is done, end with one or two sentences on what you changed. Your word is no proof: others run the checks
from outside and look at every changed line. If you can't do it, say plainly what is in the way."""

SUBSTITUTES: Mapping[str, str] = {
    "tree": "`find . -not -path './.git/*'` or `ls -R`",
    "rg": "`grep -rn PATTERN .`",
    "fd": "`find . -name PATTERN`",
    "jq": "`python3 -m json.tool`",
    "python": "`python3`",
    "make": "the commands in the Makefile, one by one",
    "curl": "`python3` with urllib.request",
    "wget": "`python3` with urllib.request",
    "git": "the files themselves; there is no history to look at",
    "patch": "your tool for editing files",
    "ed": "your tool for editing files",
    "bc": "`python3 -c 'print(…)'`",
}
"""Programs that agents like to call, and what to use where one is not there."""


def hardened_prompt(
    task: Task, tree: Path, profile: VerificationProfile, *, path: str, redactor: Redactor, form: str = ""
) -> str:
    """Say everything that a maid has to know at its first attempt.

    Args:
        tree: the working tree, which is the project root for the maid.
        profile: all checks that will be made, those of the maid's row and of the caller.
        path: the PATH that the maid will have, by which missing programs are known; empty: they are not looked for.
        redactor: masks secrets that the caller may have written into the task.
        form: the project's template for such tasks, if it has one.
    """
    parts = [
        _OPENING,
        f"# Project root\n{tree}\nIt is your working directory. Use paths relative to it.",
        f"# Task\nIntent: {one_line(task.intent)}\nWhat the person wants:\n{delimited('task', task.instruction)}",
    ]
    if form:
        parts.append(f"# The project's form for such tasks\n{_FORM}\n{delimited('form', form)}")
    if task.constraints:
        listed = "\n".join(f"- {_indented(constraint)}" for constraint in task.constraints)
        parts.append(f"# Constraints\n{listed}")
    parts.append(f"# Forbidden\n{_FORBIDDEN}")
    missing = [f"- `{name}` is not there; use {instead}." for name, instead in _missing(path)]
    if missing:
        parts.append("# Programs that are not there\n" + "\n".join(missing))
    parts.append(f"# Checks\n{_checks(profile)}")
    parts.append(f"# Ending\n{_CLOSING}")
    return redactor.text("\n\n".join(parts) + "\n")


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _missing(path: str) -> Iterator[tuple[str, str]]:
    for name, instead in SUBSTITUTES.items() if path else ():
        if shutil.which(name, path=path) is None:
            yield name, instead


def _checks(profile: VerificationProfile) -> str:
    if profile.is_empty:
        return "There is no automatic check. A person looks at every changed line."
    lines = list(_lines(profile))
    more = [f"- and {len(lines) - MOST_CHECKS} more"] if len(lines) > MOST_CHECKS else []
    head = "After you have ended, these are run from outside; all of them have to pass:"
    return "\n".join([head, *lines[:MOST_CHECKS], *more])


def _lines(profile: VerificationProfile) -> Iterator[str]:
    for file in profile.file_checks:
        if not file.exists:
            yield f"- There is no file {_told(file.path)}."
        elif file.contains is None:
            yield f"- There is a file {_told(file.path)}."
        else:
            yield f"- The file {_told(file.path)} contains {_told(file.contains)}."
    for command in profile.test_commands:
        yield f"- The command {_told(list(command.command))} exits with 0."
    if profile.start is not None:
        yield f"- The server is started for the checks by {_told(list(profile.start))}; do not start it yourself."
    for url in profile.http_checks:
        body = "" if url.expect_body is None else f" and a body that contains {_told(url.expect_body)}"
        yield f"- {_told(url.url)} answers with status {url.expect_status}{body}."
    for exact in profile.exact_output:
        if exact.command is not None:
            what = f"The output of the command {_told(list(exact.command))}"
        elif exact.url is not None:
            what = f"The body at {_told(exact.url)}"
        else:
            what = f"The whole of the file {_told(exact.path)}"
        yield f"- {what} is exactly {_told(exact.expect)}."


def _told(value: object) -> str:
    """A value as JSON, on one line, so that line ends and spaces can be seen."""
    short = value[: LONGEST_EXPECTED + 1] if isinstance(value, str) else value
    text = json.dumps(short, ensure_ascii=False)
    return text if len(text) <= LONGEST_EXPECTED else f"{text[:LONGEST_EXPECTED]}… (cut)"
