"""The story of one action in plain lines: who asked, which rule spoke, who saw it, who decided, what happened (A9)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from butler.errors import ButlerError
from butler.redact import Redactor
from butler.storage.audit_check import stored_rows
from butler.types import Json


@dataclass(frozen=True)
class Line:
    """One row of the audit as a sentence."""

    at: str
    text: str


def find_action(connection: sqlite3.Connection, wanted: str) -> str:
    """The action with that id or typing code; the latest one that had the code. Raises ButlerError ``not_found``."""
    code = wanted.strip().upper()
    for query, value in (
        ("SELECT action_id FROM audit WHERE action_id = ? LIMIT 1", wanted.strip()),
        ("SELECT action_id FROM actions WHERE code = ? AND status = 'pending'", code),
        (
            "SELECT action_id FROM audit WHERE event IN ('requested', 'unknown') "
            "AND json_extract(data, '$.code') = ? ORDER BY seq DESC LIMIT 1",
            code,
        ),
    ):
        found = connection.execute(query, (value,)).fetchone()
        if found is not None:
            return str(found[0])
    raise ButlerError("not_found", f"The audit knows no action {wanted!r}; give its id or its code.")


def story(connection: sqlite3.Connection, action_id: str, redactor: Redactor) -> Iterator[Line]:
    """The lines of one action, oldest first."""
    action = connection.execute("SELECT title FROM actions WHERE action_id = ?", (action_id,)).fetchone()
    for number, row in enumerate(stored_rows(connection, action_id=action_id)):
        data = redactor.json(row["data"] or {})
        if number == 0:
            what = redactor.text(str(action[0])) if action else str(data.get("tool", ""))
            yield Line("", f"{what}   action {action_id}, thread {row['thread_id']}, run {row['run_id']}")
        yield Line(row["at"], sentence(row, data))


def sentence(row: Json, data: Mapping[str, Any]) -> str:
    """One row in words; an event without words of its own shows its data."""
    tell = _SENTENCES.get(row["event"])
    if tell is None:
        return f"{row['event']} by {row['actor']} via {row['via']}: {json.dumps(data, ensure_ascii=False)}"
    return tell({**data, "actor": row["actor"], "via": row["via"]})


def _decision(verb: str) -> Callable[[Mapping[str, Any]], str]:
    def tell(row: Mapping[str, Any]) -> str:
        said = row.get("decision") if isinstance(row.get("decision"), dict) else {}
        reason = (said or {}).get("reason")
        return f"{verb} by {_who(row)}" + (f": {reason}" if reason else "")

    return tell


def _who(row: Mapping[str, Any]) -> str:
    return f"{row['actor']} via {row['via']}"


def _rule(row: Mapping[str, Any]) -> str:
    return f"rule {row.get('rule')}: {row.get('reason')}"


def _requested(row: Mapping[str, Any]) -> str:
    code = f", code {row['code']}" if row.get("code") else ""
    return f"asked for by {_who(row)}{code}; a person has to decide, by {_rule(row)}"


def _in_part(row: Mapping[str, Any]) -> str:
    return f"{_decision('approved')(row)} ({row.get('approvals')} of {row.get('approvals_needed')} approvals)"


def _refused(row: Mapping[str, Any]) -> str:
    if row.get("at_execution"):
        return f"not run: {row['at_execution']}"
    return f"asked for by {_who(row)}; refused by {_rule(row)}"


def _attempt(row: Mapping[str, Any]) -> str:
    return f"{row['actor']} tried to {row.get('decision') or row.get('wish')} via {row['via']}: {row.get('code')}"


def _granted(row: Mapping[str, Any]) -> str:
    grant = row.get("grant") if isinstance(row.get("grant"), dict) else {}
    args = json.dumps((grant or {}).get("args"), ensure_ascii=False)
    return f"such calls granted by {_who(row)}: scope {(grant or {}).get('scope')}, arguments {args}"


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "requested": _requested,
    "allowed": lambda row: f"asked for by {_who(row)}; allowed without asking, by {_rule(row)}",
    "refused": _refused,
    "shown": lambda row: f"shown to {_who(row)}",
    "approved": _decision("approved"),
    "approved_in_part": _in_part,
    "edited": _decision("approved with other arguments"),
    "responded": _decision("answered in the tool's place"),
    "rejected": _decision("rejected"),
    "changes_requested": _decision("sent back for changes"),
    "expired": lambda _row: "expired: nobody decided in time",
    "escalated": lambda row: f"nobody decided in time: {', '.join(row.get('to') or ())} may decide too",
    "cancelled": lambda row: f"cancelled by {_who(row)}: {row.get('why')}",
    "attempt_refused": _attempt,
    "granted": _granted,
    "started": lambda row: f"started, attempt {row.get('attempt')}",
    "done": lambda row: f"done, digest of the result {row.get('result_sha256')}",
    "failed": lambda row: f"failed, digest of the result {row.get('result_sha256')}",
    "unknown": lambda _row: "interrupted: whether it took effect is not known, a person has to say",
    "repeated": lambda _row: "interrupted; it may be repeated, so it will be",
}
