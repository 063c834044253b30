"""`butler audit`: check the chain, export it, tell the story of one action; reads only, beside a running server."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from butler.errors import ButlerError
from butler.redact import Redactor
from butler.storage.audit_check import BEGINNING, Head, Report, open_readonly, stored_rows, verify, verify_database
from butler.types import Json
from config.environment import read_environment
from config.settings import load_settings
from service.audit_export import Format, encoded, from_time, read_export, shown_row
from service.audit_story import find_action, story
from service.cli.exits import FAILED
from service.cli.plain import harmless_lines, json_document, visible

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

audit_app = typer.Typer(help="Check, export and read the audit.", no_args_is_help=True)


@audit_app.command("verify")
def audit_verify(
    head: Annotated[str | None, typer.Option(help="SEQ:HASH noted earlier; it must still be in the chain.")] = None,
    file: Annotated[Path | None, typer.Option(help="An exported CSV or NDJSON file instead of the database.")] = None,
    allow_masked: Annotated[
        bool, typer.Option("--allow-masked", help="Don't fail for rows of a file whose data was masked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that no row was altered, removed, put in or cut off; print how many there are, and the head."""
    noted = Head.parse(head) if head else None
    if file is not None:
        report = _verify_file(file, noted)
    else:
        path = _database_path()
        try:
            report = verify_database(path, noted=noted)
        except sqlite3.Error as error:
            raise _unreadable(path, error) from None
    if as_json:
        print(json_document(_document(report)))
    else:
        _print_report(report, noted)
    if report.fault is not None or (report.masked and not allow_masked):
        raise typer.Exit(FAILED)


def _document(report: Report) -> Json:
    fault = report.fault and {"kind": report.fault.kind, "detail": report.fault.detail}
    return {
        "whole": report.fault is None, "rows": report.count, "head": None if report.fault else str(report.head),
        "first_taken_as_it_is": report.trusted, "masked": list(report.masked), "fault": fault,
    }  # fmt: skip


def _verify_file(file: Path, noted: Head | None) -> Report:
    rows = read_export(file)
    try:
        first = next(rows, None)
        if first is None:
            return verify((), noted=noted)
        after: Head | None = BEGINNING if first["seq"] == 1 else None
        if noted is not None and first["seq"] == noted.seq + 1:
            after = noted
        return verify(_all(first, rows), after=after, noted=noted)
    except UnicodeDecodeError:
        raise ButlerError("invalid_request", f"{file} is not UTF-8, so it is no export of the audit.") from None


def _all(first: Json, rest: Iterable[Json]) -> Iterator[Json]:
    yield first
    yield from rest


def _print_report(report: Report, noted: Head | None) -> None:
    print(f"{report.count} row(s) hold together.")
    if report.trusted is not None:
        print(f"The export begins with row {report.trusted}, which is taken as it is: what came before is not in it.")
        if noted is not None and noted.seq < report.trusted - 1:
            print(f"The noted head, row {noted.seq}, is not in it either.")
    if report.masked:
        rows = ", ".join(map(str, report.masked))
        print(
            f"butler: the `data` of {len(report.masked)} row(s) is masked in this file, so only the rest of them was "
            f"checked: {rows}. Compare them with the database, or allow it with --allow-masked.",
            file=sys.stderr,
        )
    if report.fault is not None:
        print(f"butler: the audit is not whole ({report.fault.kind}): {report.fault.detail}", file=sys.stderr)
        return
    print(f"head {report.head}")


@audit_app.command("export")
def audit_export(
    kind: Annotated[Format, typer.Option("--format", help="csv or ndjson.")] = "ndjson",
    since: Annotated[datetime | None, typer.Option(help="Only rows from this time (UTC) on.")] = None,
    output: Annotated[Path | None, typer.Option(help="A file; without it, standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON document instead.")] = False,
) -> None:
    """Write all rows, oldest first, in a form that `verify --file` can check."""
    redactor = _redactor()
    path = _database_path()
    try:
        with closing(open_readonly(path)) as connection:
            rows = (shown_row(row, redactor) for row in stored_rows(connection, since=from_time(since)))
            lines = [json_document({"items": list(rows)}).encode() + b"\n"] if as_json else encoded(rows, kind)
            if output is None:
                # What is kept is exact; on a terminal no value may move the cursor.
                exact = not sys.stdout.isatty()
                for line in lines:
                    sys.stdout.buffer.write(line if exact else harmless_lines(line.decode()).encode())
                sys.stdout.flush()
                return
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(lines)
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None


@audit_app.command("show")
def audit_show(
    action: Annotated[str, typer.Argument(help="The action's id or code.")], as_json: AsJson = False
) -> None:
    """Tell the story of one action."""
    path = _database_path()
    try:
        with closing(open_readonly(path)) as connection:
            lines = list(story(connection, find_action(connection, action), _redactor()))
            if as_json:
                print(json_document({"items": [{"at": line.at or None, "text": line.text} for line in lines]}))
                return
            for line in lines:
                print(visible(f"{line.at}  {line.text}" if line.at else line.text))
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None


def _redactor() -> Redactor:
    environment = read_environment().values
    return Redactor.from_environment(load_settings(), environment)


def _database_path() -> Path:
    path = load_settings().database_path
    if not path.exists():
        raise ButlerError("not_found", f"There is no database {path}; go to Butler's folder or set BUTLER_DATA_DIR.")
    return path


def _unreadable(path: Path, error: sqlite3.Error) -> ButlerError:
    hint = " Start this version of Butler once; it brings the file up to date." if "no such" in str(error) else ""
    return ButlerError("internal", f"The audit in {path} can't be read: {error}.{hint}")
