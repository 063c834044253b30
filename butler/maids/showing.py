"""What a person is shown who decides on a diff: in full where that is short, else something of everything (D6, A3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from butler.canonical import canonical_json
from butler.maids.store import Attempt, MaidRun
from butler.maids.worktree.cutting import cut_diff
from butler.types import Json

MOST_TITLE = 200


@dataclass(frozen=True)
class Sizes:
    """Bounds of the parts: bytes of the diff and of the list of files, numbers of files and checks, characters of
    what a check found and of each side of a conflict."""

    diff: int = 64 * 1024
    list_bytes: int = 128 * 1024
    files: int = 500
    checks: int = 100
    found: int = 8 * 1024
    side: int = 4_000


SHORT = Sizes(16 * 1024, 16 * 1024, 50, 20, 500, 300)


def shown(run: MaidRun, attempts: Sequence[Attempt], sizes: Sizes | None = None) -> Json:
    """All that a person decides by: the diff, what was checked, what was tried, and what of it is not shown."""
    sizes = sizes or Sizes()
    diff = run.diff or {}
    last = attempts[-1].evidence if attempts else {}
    text, is_cut = cut_diff(diff["text"].encode("utf-8", "surrogatepass"), sizes.diff)
    files = _first(diff["changes"], sizes)
    args: Json = {
        "maid_run_id": run.maid_run_id, "maid_id": run.maid_id, "intent": run.intent,
        "project_root": run.project_root, "summary": str(last.get("claim") or "")[:2000],
        "changed_files": files, "changed_files_count": len(diff["changes"]),
        "checks": [_check(one, sizes.found) for one in (last.get("checks") or [])[: sizes.checks]],
        "attempts": [_line(one) for one in attempts], "diff": text, "diff_sha256": diff["sha256"],
        "diff_is_cut": is_cut or bool(diff.get("is_cut")),
    }  # fmt: skip
    notes = list(diff.get("notes") or [])
    if len(files) < len(diff["changes"]):
        notes.insert(0, f"Only {len(files)} of {len(diff['changes'])} changed files are named here.")
    if args["diff_is_cut"]:
        notes.insert(0, f"The diff is too long to be shown whole; GET /maid-runs/{run.maid_run_id} has more of it.")
    if notes:
        args["notes"] = notes
    for name in ("changed_outside", "changed_by_checks"):
        if last.get(name):
            args[name] = _first(last[name], sizes)
    if diff.get("conflict"):
        args["conflicts"] = [_conflict(one, sizes.side) for one in diff["conflict"]]
    return args


def title_of(run: MaidRun, args: Json) -> str:
    """One line that tells what is asked."""
    cut = " (shown in part)" if args["diff_is_cut"] else ""
    title = f"Apply {args['changed_files_count']} changed file(s){cut} of {run.maid_id} to {run.project_root}"
    return title[:MOST_TITLE]


def _first(items: Sequence[Any], sizes: Sizes) -> list[Any]:
    """As many from the beginning as there is room for."""
    kept: list[Any] = []
    room = sizes.list_bytes
    for item in items[: sizes.files]:
        room -= len(canonical_json(item).encode("utf-8", "surrogatepass"))
        if room < 0:
            break
        kept.append(item)
    return kept


def _check(check: Json, most: int) -> Json:
    return {name: value[:most] if isinstance(value, str) else value for name, value in check.items()}


def _conflict(conflict: Json, most: int) -> Json:
    files = [{**one, "both_sides": str(one.get("both_sides") or "")[:most]} for one in conflict.get("files") or []]
    return {**conflict, "files": files}


def _line(attempt: Attempt) -> Json:
    return {
        "attempt": attempt.number, "status": attempt.status, "failure_class": attempt.failure_class,
        "reason": str((attempt.evidence.get("failure") or {}).get("detail") or "")[:500],
    }  # fmt: skip
