"""Maids for people: the registry, beginning a delegated task, how tasks stand (http-api, *Maids*)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.show import approval
from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.maids import store
from butler.maids.evaluation.records import adoption_of_all
from butler.maids.keeping import kept_documents
from butler.maids.overview import maid_documents
from butler.maids.store import Attempt, MaidRun
from butler.people import Principal
from butler.said import kept
from butler.storage import conversations
from butler.storage.conversations import Run
from butler.tools.delegating import DELEGATE
from butler.types import Json
from service.approvals import encode_cursor
from service.butler import ButlerService
from service.carried import carried_through


@dataclass(frozen=True)
class Begun:
    """A task that was taken in; its row, thread and run are on disk."""

    task: MaidRun
    run: Run


class MaidService:
    """What any face may ask about maids."""

    def __init__(self, service: ButlerService) -> None:
        self._service = service
        self._database = service.database

    async def listing(self) -> list[Json]:
        """The registry with routes, health and adoption class; no values of variables."""
        means = self._supervisor().means
        adoption = await self._database.read(adoption_of_all)
        desk = means.desk
        found = maid_documents(desk.registry, desk.routes, means.environ, adoption)
        for project in desk.projects:
            own = replace(project.registry, maids=project.own_maids)
            shown = maid_documents(own, project.routes, {**means.environ, **project.variables}, adoption)
            found += [{**one, "project": project.name} for one in shown]
        return found

    def _supervisor(self) -> Any:
        maids = self._service.faculties.maids
        if maids is None:
            raise ButlerError("not_found", "This house has no maids.")
        return maids

    @carried_through
    async def begin(self, person: Principal, args: Json) -> Begun:
        """Take a task in as the first message of a new thread.

        Raises:
            ButlerError: ``not_found`` for an unknown maid, ``forbidden`` for a folder that is not allowed,
                ``rate_limited`` for too many unfinished tasks, ``invalid_request`` for what else is wrong with it.
        """
        service, tools = self._service, self._service.faculties.tools
        if faults := tools.validate(DELEGATE, args):
            raise ButlerError("invalid_request", f"The task can't be delegated: {'; '.join(faults)}")
        desk = self._supervisor().means.desk
        args = desk.meant(args)
        task = desk.read(args)
        await desk.foresee(args)
        message = f"/{DELEGATE} {json.dumps(args, ensure_ascii=False)}"
        lease, line = service.runs.lease(), kept(message, tools)

        def transaction(connection: Connection) -> tuple[MaidRun, Run]:
            thread_id = conversations.create_thread(connection, person, f"{task.intent}: {task.instruction}")
            run = conversations.accept(
                connection, thread_id, person, message, lease, line=line, hold=service.runs.draining
            )
            return store.add(connection, task, person, thread_id=thread_id, run_id=run.run_id), run

        crash_point("accept_before_commit")
        row, run = await self._database.write(transaction)
        crash_point("accept_after_commit")
        if run.status == "running":
            service.runs.drive(run, fresh=True, person=person)
        return Begun(row, run)

    async def one(self, person: Principal, maid_run_id: str) -> Json:
        """A task with the evidence of all its attempts. Raises ButlerError ``not_found`` also for somebody else's."""

        maids = self._service.faculties.maids
        data = maids.means.folder.parent if maids is not None else None

        def query(connection: Connection) -> Json:
            run = owned(connection, maid_run_id, person)
            project = maids.means.desk.ground(Path(run.project_root)).name if maids is not None else ""
            pending = pending_of(connection, run)
            attempts = store.attempts_of(connection, run.maid_run_id)
            shown = [approval(one, self._service.faculties.tools, self._service.faculties.redactor) for one in pending]
            return {
                **summary(run, bool(pending)), "project": project or None,
                "constraints": run.constraints, "expect": run.expect,
                "route": run.route, "attempts": [evidence_of(one) for one in attempts],
                "diff": run.diff["text"] if run.diff else None,
                "diff_sha256": run.diff["sha256"] if run.diff else None,
                "diff_is_cut": bool(run.diff and run.diff.get("is_cut")),
                "notes": run.diff.get("notes", []) if run.diff else [],
                "changed_files": run.diff["changes"] if run.diff else [], "approvals": shown,
                "kept_trees": kept_documents(data, run.maid_run_id) if data is not None else [],
            }  # fmt: skip

        return await self._database.read(query)

    async def listed(self, person: Principal, limit: int, before: tuple[str, str] | None) -> Json:
        """Tasks that this person may see, the newest first."""

        def query(connection: Connection) -> Json:
            found = store.listed(connection, person, limit + 1, before)
            shown = found[:limit]
            last = shown[-1] if len(found) > limit else None
            return {
                "items": [summary(run, not run.is_over and bool(pending_of(connection, run))) for run in shown],
                "next_cursor": encode_cursor(last.created_at, last.maid_run_id) if last else None,
            }

        return await self._database.read(query)

    async def cancel(self, person: Principal, maid_run_id: str, via: str) -> Json:
        """End the turn that a task belongs to; one that is over stays as it is."""
        run = await self._database.read(lambda connection: owned(connection, maid_run_id, person))
        if not run.is_over:
            await self._service.cancel(person, run.run_id, via)
        return await self.one(person, maid_run_id)


def owned(connection: Connection, maid_run_id: str, person: Principal) -> MaidRun:
    """The task. Raises ButlerError ``not_found`` also when it is somebody else's and `person` is no admin."""
    run = store.get(connection, maid_run_id)
    if run is not None and (person.is_admin or run.requester_id == person.user_id):
        return run
    raise ButlerError("not_found", f"There is no maid run {maid_run_id!r}.")


def pending_of(connection: Connection, run: MaidRun) -> list[Any]:
    """What of a task waits for a person: its start, a permission, or its diff."""
    actions = [one for one in ledger.of_run(connection, run.run_id) if one.status == "pending"]
    if run.is_over:
        return []
    if run.call_id is None:
        return [one for one in actions if one.tool == DELEGATE]
    return [one for one in actions if one.call_id.partition(":")[0] == run.call_id]


def summary(run: MaidRun, waits: bool) -> Json:
    """A task as lists show it."""
    return {
        "maid_run_id": run.maid_run_id, "thread_id": run.thread_id, "run_id": run.run_id,
        "status": "waiting_approval" if waits else run.status, "maid_id": run.maid_id, "intent": run.intent,
        "instruction": run.instruction, "project_root": run.project_root, "reason": run.reason,
        "requested_by": run.requested_by, "created_at": run.created_at, "updated_at": run.updated_at,
        "finished_at": run.finished_at,
    }  # fmt: skip


def evidence_of(attempt: Attempt) -> Json:
    """One attempt as it is shown."""
    evidence = {name: value for name, value in attempt.evidence.items() if name not in ("observation", "workspace")}
    return {
        "attempt_id": attempt.attempt_id, "attempt": attempt.number, "status": attempt.status,
        "spends": attempt.spends, "failure_class": attempt.failure_class, "started_at": attempt.started_at,
        "finished_at": attempt.finished_at, **evidence,
    }  # fmt: skip
