"""After an attempt: the checks, what they say of it, and its evidence (D8, D9)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import structlog
from pydantic import TypeAdapter

from butler.errors import ButlerError
from butler.maids import store
from butler.maids.contract import AttemptStatus, Diff, Failure, Verification
from butler.maids.events import Emit, tell
from butler.maids.evidence import fitted, judged
from butler.maids.failures import classify, kind_of
from butler.maids.launching.sandbox import confined
from butler.maids.leaks import leaks_of
from butler.maids.means import Means
from butler.maids.observation import Observation
from butler.maids.store import Attempt, MaidRun
from butler.maids.verify.profile import merged
from butler.maids.verify.run import verify
from butler.maids.worktree import Fingerprint, Workspace, diff, fingerprint, outside_changes
from butler.maids.worktree.sealing import Tampered
from butler.types import Json

log = structlog.get_logger("butler.maids")

OBSERVATIONS: TypeAdapter[Observation] = TypeAdapter(Observation)
DIFFS: TypeAdapter[Diff] = TypeAdapter(Diff)
MAIDS_DOING = frozenset({"too_large", "invalid_request", "forbidden"})
"""Codes of errors that a maid can undo: too much, or what git can't look at."""


class Checking:
    """Verifies what an attempt has left, and settles the attempt."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._database = means.database
        self._serving = asyncio.Lock()

    async def settle(self, run: MaidRun, attempts: Sequence[Attempt], emit: Emit) -> None:
        """Make the checks, name the failure if there is one, store the evidence."""
        attempt = attempts[-1]
        seen = OBSERVATIONS.validate_python(attempt.evidence["observation"])
        tell(emit, run, attempt.number, "verifying", "")
        before = await self.project_state(run)
        verification, fault = await self._verify(run, attempt, seen)
        seen = _with(seen, verification)
        after: Diff | Failure | None = seen.diff
        if after is None or (verification is not None and verification.checks):
            # Checks may write into the tree; what a person is asked about is what is there now.
            after = await self.look(run)
        if seen.diff is None and isinstance(after, Diff):
            seen = replace(seen, diff=after)
        failure = classify(seen)
        if fault is not None and (failure is None or failure.failure_class == "unknown"):
            failure = Failure("verifier_error", fault)
        if isinstance(after, Failure):
            failure = _without_diff(failure, after)
        elif after is not None:
            leaks = await leaks_of(after, Workspace.from_json(run.workspace or {}).tree, self._means.redactor)
            if (leak := leaks.violation()) is not None:
                failure = Failure("policy_violation", leak)
            after = replace(after, notes=(*after.notes, *filter(None, [leaks.note()])))
        if failure is None and isinstance(after, Diff) and after.left_out:
            names = ", ".join(after.left_out[:5])
            failure = Failure("wrong_output", f"{names}: there, but git can't make it part of the change.")
        status: AttemptStatus = "failed" if failure is not None else "unverified"
        if failure is None and verification is not None and verification.outcome == "passed":
            status = "passed"
        outside = seen.outside
        if before is not None and (now := await self.project_state(run)) is not None:
            outside = tuple(dict.fromkeys((*outside, *outside_changes(before, now))))
        evidence = self._evidence(attempt, seen, verification, failure, after, outside)
        # One that can't be taken is no diff: neither an empty one nor that of an attempt before.
        diff_json = diff_document(after) if isinstance(after, Diff) else None
        await self._database.write(
            partial(store.change, maid_run_id=run.maid_run_id, diff=self._means.redactor.json(diff_json))
        )
        await self._database.write(
            partial(
                store.settle_attempt, attempt_id=attempt.attempt_id, status=status, evidence=evidence,
                failure_class=failure.failure_class if failure else None,
                spends=kind_of(failure.failure_class).spends if failure else True,
            )
        )  # fmt: skip
        said = f"{failure.failure_class}: {failure.detail}" if failure else status
        tell(emit, run, attempt.number, "checked", self._means.redactor.text(said))

    async def _verify(
        self, run: MaidRun, attempt: Attempt, seen: Observation
    ) -> tuple[Verification | None, str | None]:
        """The verification, or why there is none."""
        stop = seen.finished.stopped
        if stop is not None and stop.failure_class == "launch_error":
            return None, None
        try:
            maid = self._means.maid_of(run)
            profile = merged(maid.verification_profile, self._means.desk.task(run).expect)
            tree = Workspace.from_json(run.workspace or {}).tree
            temp = self._means.folder_of(run) / f"checks-{attempt.number}"
            await asyncio.to_thread(temp.mkdir, parents=True, exist_ok=True)
            environment = self._environment(temp)
            wrap = None
            if maid.sandbox == "bubblewrap":
                # The maid wrote what runs now.
                wrap = partial(
                    confined, place=tree, writable=(tree, temp), network=True, hidden=self._means.hidden,
                    search=environment["PATH"],
                )  # fmt: skip
            mark = f"{attempt.attempt_id}-check"
            verification = await verify(
                profile, tree, self._means.desk.ground(Path(run.project_root)).registry, environment, mark,
                wrap=wrap, serving=self._serving,
            )  # fmt: skip
            return verification, None
        except (ButlerError, OSError) as error:
            return None, f"The checks could not be made: {error}"
        except Exception as error:
            # A fault of our own must not count as the maid's work being right, or as a lost turn.
            log.exception("verification_failed", attempt_id=attempt.attempt_id)
            return None, f"The checks could not be made ({type(error).__name__}: {error})."

    def _environment(self, temp: Path) -> dict[str, str]:
        """What checks get: no variable of the maid's row, no key."""
        environ = self._means.environ
        return {
            "PATH": environ.get("PATH", os.defpath), "HOME": str(temp), "TMPDIR": str(temp), "TERM": "dumb",
            "LANG": environ.get("LANG", "C.UTF-8"), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    async def look(self, run: MaidRun) -> Diff | Failure:
        """What differs from the base now, or why that can't be told: then the attempt does not count as done."""
        workspace = Workspace.from_json(run.workspace or {})
        try:
            return await diff(workspace)
        except (ButlerError, OSError) as error:
            log.warning("diff_not_taken", maid_run_id=run.maid_run_id, error=str(error))
            found = error
        if not await asyncio.to_thread(workspace.tree.is_dir) and not isinstance(found, Tampered):
            return Failure("wrong_directory", "It removed the folder that it works in, and its work with it.")
        if isinstance(found, Tampered):
            return Failure("policy_violation", found.detail)
        if isinstance(found, ButlerError) and found.code in MAIDS_DOING:
            return Failure("wrong_output", f"Its changes can't be taken: {found.detail}")
        if isinstance(found, OSError) and found.errno == errno.ENAMETOOLONG:
            return Failure("wrong_output", "Its changes can't be taken: folders lie too deep inside of each other.")
        return Failure("verifier_error", f"Its changes can't be taken: {found}")

    async def take_diff(self, run: MaidRun) -> Diff | None:
        """What differs from the base now; None where it can't be taken."""
        found = await self.look(run)
        return found if isinstance(found, Diff) else None

    async def project_state(self, run: MaidRun) -> Fingerprint | None:
        """The state of the person's own files; None where it can't be taken."""
        try:
            return await fingerprint(self._means.desk.task(run).project_root, data_dir=self._means.folder.parent)
        except (ButlerError, OSError) as error:
            log.warning("project_not_looked_at", maid_run_id=run.maid_run_id, error=str(error))
            return None

    def _evidence(
        self, attempt: Attempt, seen: Observation, verification: Verification | None, failure: Failure | None,
        after: Diff | Failure | None, outside: tuple[str, ...],
    ) -> Json:  # fmt: skip
        evidence = {key: value for key, value in attempt.evidence.items() if key != "observation"}
        taken = after if isinstance(after, Diff) else None
        evidence |= judged(verification, failure, seen.diff, seen.trouble)
        if isinstance(after, Failure):
            evidence["diff_fault"] = after.detail
        if taken is not None and seen.diff is not None and taken.sha256 != seen.diff.sha256:
            evidence["changed_by_checks"] = _differing(seen.diff, taken)
        if outside:
            evidence["changed_outside"] = list(outside)
        return fitted(evidence, self._means.redactor)


def _differing(before: Diff, after: Diff) -> list[str]:
    """Paths whose change is not the same in both; all where only contents differ."""
    paths = sorted({change.path for change in {*before.changes} ^ {*after.changes}})
    return paths or [change.path for change in after.changes]


def _without_diff(found: Failure | None, lost: Failure) -> Failure:
    """The failure of an attempt whose diff can't be taken."""
    if found is None or found.failure_class == "unknown":
        return lost
    if kind_of(lost.failure_class).stands and not kind_of(found.failure_class).stands:
        return replace(lost, check=found.check)
    return replace(found, detail=f"{found.detail} {lost.detail}"[:2_000])


def _with(seen: Observation, verification: Verification | None) -> Observation:
    return replace(seen, verification=verification)


def diff_document(found: Diff) -> Json:
    """A diff as it is stored and shown."""
    document = DIFFS.dump_python(found, mode="json")
    return cast(Json, document)
