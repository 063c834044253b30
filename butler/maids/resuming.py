"""Which session of an agent another attempt goes on with, so that the agent keeps what it has read and done (D7, D10).

Only where its last turn came to an answer: one that was killed in the middle would do its old task again.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.maids.contract import Finished, Resume
from butler.maids.failures import kind_of
from butler.maids.quoting import one_line
from butler.maids.store import Attempt
from butler.types import Json

LONGEST_ID = 500
ANSWERED = {False: "end_turn", True: "cancelled"}
"""The stop reason of a turn that is complete, by whether the attempt waits for a person."""


def session_note(opened: Json, finished: Finished, tree: Path, home: int) -> Json:
    """What is kept of an agent's session, and whether it can be gone on with.

    Args:
        opened: as the watcher noted it.
        tree: the folder that the session is in.
        home: the number of the attempt whose home it is in.
    """
    complete = finished.stop_reason == ANSWERED[finished.awaits_permission]
    clean = finished.stopped is None or finished.awaits_permission
    fits = 0 < len(str(opened["id"])) <= LONGEST_ID
    return {**opened, "tree": str(tree), "home": home,
            "resumable": bool(opened["can_load"]) and complete and clean and fits}  # fmt: skip


def session_of(last: Attempt, tree: Path) -> tuple[str, int] | None:
    """The session to go on with, as its id and the number of the attempt whose home it is in; None for a new one."""
    session = last.evidence.get("session") or {}
    if not session.get("resumable") or session.get("tree") != str(tree) or last.status == "interrupted":
        return None
    if last.status == "failed" and not kind_of(last.failure_class or "unknown").keeps_session:
        return None
    return str(session["id"]), int(session["home"])


def resumed(connection: Connection, last: Attempt, session_id: str) -> Resume:
    """The session with what is said in it: what a person has decided meanwhile."""
    lines = []
    for asked in last.evidence.get("permissions") or ():
        action = ledger.get(connection, asked["action_id"]) if asked.get("answer") == "cancel" else None
        if action is not None:
            is_allowed = action.status in ("allowed", "approved")
            said = "allowed; ask for it again when you come to it" if is_allowed else "refused; do not do it"
            lines.append(f"- {one_line(str(asked.get('title') or asked['kind']), 200)}: {said}")
    if not lines:
        return Resume(session_id)  # the prompt says what was wrong
    # The task stands in the session already; some agents that hear it twice do it twice.
    told = "You were stopped while you waited for a permission. It has been decided meanwhile:"
    after = "Go on with your task from where you were. All that was said about it still holds."
    return Resume(session_id, "\n".join([told, *lines, after]))
