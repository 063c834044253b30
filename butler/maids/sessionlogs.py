"""The record of a finished task in its project's `session_logs_dir`: one JSON file each, secrets masked (D9, D12)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from butler.ids import new_id
from butler.maids.store import Attempt, MaidRun
from butler.redact import Redactor
from butler.types import Json

log = structlog.get_logger("butler.maids")

LEFT_OUT = ("observation", "workspace")
"""What of an attempt's evidence is for the supervisor alone."""


def file_name(run: MaidRun) -> str:
    """The name of a task's record; the newest sort last."""
    return f"{run.created_at[:19].replace(':', '')}-{run.maid_run_id}.json"


async def write_session_log(folder: Path, run: MaidRun, attempts: Sequence[Attempt], redactor: Redactor) -> None:
    """Write the record once; what can't be written is logged, and the task is as it is."""
    record = redactor.json(_record(run, attempts))
    try:
        await asyncio.to_thread(_write, folder, file_name(run), json.dumps(record, indent=2, ensure_ascii=False))
    except OSError as error:
        log.warning("session_log_not_written", maid_run_id=run.maid_run_id, folder=str(folder), error=str(error))


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    if path.exists():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.resolve() != folder:
        raise OSError(f"{folder} leads elsewhere by now")
    draft = folder / f".{new_id()}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text + "\n")
    draft.replace(path)


def _record(run: MaidRun, attempts: Sequence[Attempt]) -> Json:
    diff = run.diff or {}
    return {
        "maid_run_id": run.maid_run_id, "thread_id": run.thread_id, "run_id": run.run_id, "status": run.status,
        "reason": run.reason, "maid_id": run.maid_id, "intent": run.intent, "instruction": run.instruction,
        "constraints": run.constraints, "expect": run.expect, "project_root": run.project_root,
        "requested_by": run.requested_by, "created_at": run.created_at, "finished_at": run.finished_at,
        "route": run.route, "diff": diff.get("text"), "diff_sha256": diff.get("sha256"),
        "changed_files": diff.get("changes", []),
        "attempts": [
            {
                "attempt": one.number, "status": one.status, "spends": one.spends, "failure_class": one.failure_class,
                "started_at": one.started_at, "finished_at": one.finished_at,
                **{key: value for key, value in one.evidence.items() if key not in LEFT_OUT},
            }
            for one in attempts
        ],
    }  # fmt: skip
