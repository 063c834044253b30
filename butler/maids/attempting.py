"""One execution of a maid: counted, launched, watched, and its work taken as a diff (D7, D9, D11)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.maids import store
from butler.maids.checking import DIFFS, OBSERVATIONS, Checking, diff_document
from butler.maids.contract import Finished, Launch, Resume, Stop, Tokens
from butler.maids.events import Emit, tell
from butler.maids.evidence import ended, fitted, judged, launched
from butler.maids.issues import issue_template
from butler.maids.launching.environment import attempt_environment, is_acp
from butler.maids.launching.processes import through
from butler.maids.means import Means
from butler.maids.noting import NOTE_BYTES, noting
from butler.maids.permissions import Waking
from butler.maids.prompt import hardened_prompt
from butler.maids.provider import ProviderAccess
from butler.maids.rerequest import failures_of, rerequest
from butler.maids.resuming import resumed, session_note, session_of
from butler.maids.store import Attempt, MaidRun
from butler.maids.verify.profile import merged
from butler.maids.watching import TICK_SECONDS, Watch
from butler.maids.worktree import Fingerprint, Workspace, fingerprint, outside_changes
from butler.people import Principal
from butler.types import Json
from config.maid_types import MaidDefinition

log = structlog.get_logger("butler.maids")
LONGEST_BACKOFF = 60.0
PATIENCE_SECONDS = 30.0
"""How long a launcher may take to end an attempt that has to end."""
LOOK_SECONDS = 5.0


class Attempting:
    """Runs attempts of tasks."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._database = means.database
        self._checking = Checking(means)
        self._room = asyncio.Semaphore(means.at_once)

    async def run(
        self, run: MaidRun, attempts: Sequence[Attempt], person: Principal, emit: Emit, waking: Waking
    ) -> None:
        """Count an attempt, then execute it to its end; what it has done is not judged here."""
        try:
            maid = self._means.maid_of(run)
        except ButlerError as error:
            await self._database.write(
                partial(store.finish, maid_run_id=run.maid_run_id, status="failed", reason=error.detail)
            )
            return
        if (pause := self._pause(attempts)) > 0:
            tell(emit, run, attempts[-1].number, "waiting", f"The provider had trouble; trying again in {pause:g} s.")
            await asyncio.sleep(pause)
        if self._room.locked():
            # Nothing is counted before it is its turn.
            why = f"As many maids as may ({self._means.at_once}) are running already."
            tell(emit, run, len(attempts) + 1, "waiting", why)
        async with self._room:
            await self._execute(run, attempts, maid, person, emit, waking)

    async def _execute(
        self, run: MaidRun, attempts: Sequence[Attempt], maid: MaidDefinition, person: Principal, emit: Emit,
        waking: Waking,
    ) -> None:  # fmt: skip
        prompt = self._means.redactor.text(await asyncio.to_thread(self._prompt, run, maid, attempts))
        resume, home_of = await self._resume(run, maid, attempts)
        first = launched(maid, prompt)
        attempt = await self._database.write(partial(store.begin_attempt, maid_run_id=run.maid_run_id, evidence=first))
        if attempt is None:
            return
        crash_point("maid_counted")
        home_of = home_of or attempt.number
        home = self._means.attempt_folder(run, home_of) / "home"
        watch = Watch(self._means, run, attempt, maid, person, emit, waking, home)
        tell(emit, run, attempt.number, "started", maid.label)
        before = await self._outside(run)
        try:
            async with noting(watch, partial(self._note_so_far, attempt)):
                finished = await self._launch(run, attempt, maid, prompt, watch, home, resume)
        except asyncio.CancelledError:
            # The processes are gone by now. Whether it was a person or the server that stopped it is for others to
            # say; what is known of the attempt is kept.
            await asyncio.shield(self._note(run, attempt, watch.unfinished()))
            raise
        crash_point("maid_ended")
        if watch.session is not None:
            tree = Workspace.from_json(run.workspace or {}).tree
            watch.session = session_note(watch.session, finished, tree, home_of)
        evidence = attempt.evidence | watch.evidence() | ended(finished)
        if resume is not None and resume.prompt is not None and (watch.session or {}).get("loaded"):
            evidence["prompt"] = resume.prompt
        if finished.awaits_permission:
            await self._database.write(
                partial(
                    store.settle_attempt, attempt_id=attempt.attempt_id, status="cancelled", spends=False,
                    failure_class="cancelled", evidence=fitted(evidence, self._means.redactor),
                )
            )  # fmt: skip
            tell(emit, run, attempt.number, "waiting_approval", "It runs again after the verdict.")
            return
        after = await self._outside(run)
        outside = outside_changes(before, after) if before is not None and after is not None else ()
        found = await self._checking.take_diff(run)
        seen = watch.observation(finished, found, outside)
        evidence["observation"] = OBSERVATIONS.dump_python(seen, mode="json")
        await self._database.write(
            partial(store.attempt_ended, attempt_id=attempt.attempt_id, evidence=self._means.redactor.json(evidence))
        )
        if found is not None:
            await self._database.write(
                partial(store.change, maid_run_id=run.maid_run_id, diff=self._means.redactor.json(diff_document(found)))
            )
        crash_point("maid_looked_at")
        tell(emit, run, attempt.number, "ended", _said(finished))

    def _prompt(self, run: MaidRun, maid: MaidDefinition, attempts: Sequence[Attempt]) -> str:
        """What the maid is told: the first time the task, then also what was wrong with what it did."""
        tree = Workspace.from_json(run.workspace or {}).tree
        task = self._means.desk.task(run)
        path = self._means.environ.get("PATH", os.defpath)
        profile = merged(maid.verification_profile, task.expect)
        ground = self._means.desk.ground(task.project_root)
        form = issue_template(ground.issue_template_dir, task.intent)
        first = hardened_prompt(task, tree, profile, path=path, redactor=self._means.redactor, form=form)
        failures = failures_of([one.evidence for one in attempts])
        said = [one.evidence["feedback"] for one in attempts if one.evidence.get("feedback")]
        said += [run.feedback] if run.feedback else []
        if not failures and not said:
            return first
        changes = DIFFS.validate_python(run.diff).changes if run.diff else ()
        last = attempts[-1].evidence if attempts else {}
        untold = run.diff is None and "diff_fault" in last and "workspace" not in last
        return rerequest(
            first, len(attempts) + 1, failures, changes=changes, feedback="\n\n".join(said) if said else None,
            untold=untold, redactor=self._means.redactor,
        )  # fmt: skip

    async def _resume(
        self, run: MaidRun, maid: MaidDefinition, attempts: Sequence[Attempt]
    ) -> tuple[Resume | None, int | None]:
        """The agent's session that is gone on with, and the number of the attempt whose home it is in."""
        found = session_of(attempts[-1], Workspace.from_json(run.workspace or {}).tree) if attempts else None
        if found is None or not is_acp(maid):
            return None, None
        session_id, number = found
        if not await asyncio.to_thread((self._means.attempt_folder(run, number) / "home").is_dir):
            return None, None
        return await self._database.read(partial(resumed, last=attempts[-1], session_id=session_id)), number

    def _pause(self, attempts: Sequence[Attempt]) -> float:
        """Seconds to wait after a provider's trouble; what it asks for itself is capped."""
        row = 0
        for one in reversed(attempts):
            if one.failure_class != "provider_error":
                break
            row += 1
        if row == 0:
            return 0.0
        wanted = (attempts[-1].evidence.get("failure") or {}).get("retry_after")
        return min(LONGEST_BACKOFF, float(wanted) if wanted else self._means.backoff * 2 ** (row - 1))

    async def _launch(
        self, run: MaidRun, attempt: Attempt, maid: MaidDefinition, prompt: str, watch: Watch, home: Path,
        resume: Resume | None,
    ) -> Finished:  # fmt: skip
        tree = Workspace.from_json(run.workspace or {}).tree
        place = self._means.attempt_folder(run, attempt.number)
        temp, environ = place / "temp", self._means.environ_of(run, maid)
        prompt_file = place / "prompt.md"

        def make_places() -> None:
            for folder in (home, temp):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            prompt_file.write_text(prompt, "utf-8")

        try:
            await asyncio.to_thread(make_places)
            async with AsyncExitStack() as stack:
                access: ProviderAccess | None = None
                if maid.endpoint is not None and maid.endpoint.proxy and self._means.access is not None:
                    key = environ.get(maid.endpoint.api_key_env or "")
                    access = await stack.enter_async_context(
                        self._means.access(maid.endpoint, key, maid.limits, watch.trouble, watch.over_limit)
                    )
                environment = attempt_environment(
                    maid, attempt_id=attempt.attempt_id, tree=tree, home=home, temp=temp,
                    environ=environ, access=access,
                )  # fmt: skip
                launch = Launch(
                    attempt.attempt_id, maid, self._means.desk.task(run), prompt, prompt_file, tree, home, temp,
                    environment.variables, resume,
                )  # fmt: skip
                watch.missing = environment.missing
                finished = await _watched(self._means.launcher_for(maid).run(launch, watch), watch)
                spent = access.spent() if access is not None else Tokens()
                # The proxy sees every request; tokens only where the provider tells them.
                counted = spent if spent.input_tokens or spent.output_tokens else finished.tokens
                most = max(spent.model_requests, finished.tokens.model_requests)
                return replace(finished, tokens=replace(counted, model_requests=most))
        except (ButlerError, OSError, ValueError) as error:
            return Finished(None, stopped=Stop("launch_error", f"It could not be started: {error}"))
        except Exception as error:
            log.exception("launch_failed", attempt_id=attempt.attempt_id)
            # A fault of our own: another attempt would meet it again.
            detail = f"The supervisor failed: {type(error).__name__}: {error}"
            return Finished(None, stopped=Stop("launch_error", detail))
        finally:
            await asyncio.shield(self._means.sweep(attempt.attempt_id))

    async def _outside(self, run: MaidRun) -> Fingerprint | None:
        try:
            return await fingerprint(self._means.desk.task(run).project_root, data_dir=self._means.folder.parent)
        except (ButlerError, OSError) as error:
            log.warning("project_not_looked_at", maid_run_id=run.maid_run_id, error=str(error))
            return None

    async def _note_so_far(self, attempt: Attempt, seen: Json) -> None:
        """Keep what is seen of an attempt that runs; what is told of it later replaces this."""
        evidence = fitted(attempt.evidence | seen, self._means.redactor, NOTE_BYTES)
        await self._database.write(partial(store.note_evidence, attempt_id=attempt.attempt_id, evidence=evidence))

    async def _note(self, run: MaidRun, attempt: Attempt, more: Json) -> None:
        """Keep what is known of an attempt that was cancelled, with what it has changed so far."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                found = await self._checking.take_diff(run)
        except TimeoutError:
            found = None
        whole = attempt.evidence | more | judged(None, None, found)
        evidence = fitted(whole, self._means.redactor)
        await self._database.write(partial(store.note_evidence, attempt_id=attempt.attempt_id, evidence=evidence))


async def _watched(work: Coroutine[Any, Any, Finished], watch: Watch) -> Finished:
    """Await the launcher, and end it where time alone, or the provider's proxy, says stop."""
    running = asyncio.ensure_future(work)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=TICK_SECONDS)
            stop = None if running.done() else watch.tick()
            if stop is not None:
                # It hears of it as well, and brings back what was seen; whoever doesn't is cancelled.
                await asyncio.wait({running}, timeout=PATIENCE_SECONDS)
                running.cancel()
                await asyncio.wait({running})
                return Finished(None, stopped=stop) if running.cancelled() else running.result()
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await through(_over(running))


async def _over(running: asyncio.Future[Finished]) -> None:
    await asyncio.wait({running})


def _said(finished: Finished) -> str:
    if finished.stopped is not None:
        return f"{finished.stopped.failure_class}: {finished.stopped.detail}"
    return f"exit code {finished.exit_code}"
