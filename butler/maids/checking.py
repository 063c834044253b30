"""After an attempt: the checks, what they say of it, and its evidence (D8, D9)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
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
from butler.maids.means import Means
from butler.maids.observation import Observation
from butler.maids.store import Attempt, MaidRun
from butler.maids.verify.profile import merged
from butler.maids.verify.run import verify
from butler.maids.worktree import Workspace, diff
from butler.types import Json

log = structlog.get_logger("butler.maids")

OBSERVATIONS: TypeAdapter[Observation] = TypeAdapter(Observation)
DIFFS: TypeAdapter[Diff] = TypeAdapter(Diff)


class Checking:
    """Verifies what an attempt has left, and settles the attempt."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._database = means.database

    async def settle(self, run: MaidRun, attempts: Sequence[Attempt], emit: Emit) -> None:
        """Make the checks, name the failure if there is one, store the evidence."""
        attempt = attempts[-1]
        seen = OBSERVATIONS.validate_python(attempt.evidence["observation"])
        tell(emit, run, attempt.number, "verifying", "")
        verification, fault = await self._verify(run, attempt, seen)
        seen = _with(seen, verification)
        after = seen.diff
        if verification is not None and verification.checks and run.workspace is not None:
            # Checks may write into the tree; what a person is asked about is what is there now.
            after = await self.take_diff(run) or seen.diff
        failure = classify(seen)
        if fault is not None and (failure is None or failure.failure_class == "unknown"):
            failure = Failure("verifier_error", fault)
        status: AttemptStatus = "failed" if failure is not None else "unverified"
        if failure is None and verification is not None and verification.outcome == "passed":
            status = "passed"
        evidence = self._evidence(attempt, seen, verification, failure, after)
        diff_json = diff_document(after) if after is not None else run.diff
        if diff_json is not None:
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
            return await verify(
                profile, tree, self._means.desk.registry, environment, f"{attempt.attempt_id}-check"
            ), None
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

    async def take_diff(self, run: MaidRun) -> Diff | None:
        """What differs from the base now; None where it can't be taken."""
        try:
            return await diff(Workspace.from_json(run.workspace or {}))
        except (ButlerError, OSError, KeyError) as error:
            log.warning("diff_not_taken", maid_run_id=run.maid_run_id, error=str(error))
            return None

    def _evidence(
        self, attempt: Attempt, seen: Observation, verification: Verification | None, failure: Failure | None,
        after: Diff | None,
    ) -> Json:  # fmt: skip
        evidence = {key: value for key, value in attempt.evidence.items() if key != "observation"}
        evidence |= judged(verification, failure, seen.diff, seen.trouble)
        if after is not None and (seen.diff is None or after.sha256 != seen.diff.sha256):
            evidence |= {"changed_by_checks": [change.path for change in after.changes]}
        return fitted(evidence, self._means.redactor)


def _with(seen: Observation, verification: Verification | None) -> Observation:
    return Observation(**{**vars(seen), "verification": verification})


def diff_document(found: Diff) -> Json:
    """A diff as it is stored and shown."""
    document = DIFFS.dump_python(found, mode="json")
    return cast(Json, document)
