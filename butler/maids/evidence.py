"""The evidence of one attempt as JSON: everything that was seen, redacted, bounded, and with what was cut said (D9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from butler.canonical import canonical_json
from butler.maids.contract import CheckResult, Diff, Failure, Finished, ProviderTrouble, Verification
from butler.maids.failures import fingerprint, needs_person
from butler.redact import Redactor
from butler.types import Json
from config.maid_types import MaidDefinition

LIMIT = 256 * 1024
"""Bytes of the whole as compact JSON."""
SHORTEST = 512
MOST_ITEMS = 200
_PLACES: Mapping[str, int] = {
    "prompt": 32_768, "claim": 16_384, "stdout_tail": 16_384, "stderr_tail": 16_384, "diff": 65_536,
}  # fmt: skip


def launched(maid: MaidDefinition, prompt: str, argv: Sequence[str] = ()) -> Json:
    """What was started."""
    return {
        "maid_id": maid.maid_id, "kind": maid.kind, "provider": maid.provider, "model": maid.model,
        "prompt": prompt, "argv": list(argv),
    }  # fmt: skip


def ended(finished: Finished) -> Json:
    """How the process ended; the claim and the exit code stand beside the checks and decide nothing."""
    stopped = finished.stopped
    return {
        "exit_code": finished.exit_code,
        "claim": finished.claim,
        "stop_reason": finished.stop_reason,
        "stopped": {"class": stopped.failure_class, "detail": stopped.detail} if stopped else None,
        "stdout_tail": finished.stdout_tail,
        "stderr_tail": finished.stderr_tail,
        "output_bytes": finished.output_bytes,
        "left_behind": finished.left_behind,
        "duration": finished.duration,
        "tokens": {
            "input": finished.tokens.input_tokens, "output": finished.tokens.output_tokens,
            "requests": finished.tokens.model_requests,
        },
    }  # fmt: skip


def judged(
    verification: Verification | None,
    failure: Failure | None,
    diff: Diff | None,
    trouble: Sequence[ProviderTrouble] = (),
) -> Json:
    """What was found: every check with expected and actual, the failure, the changes."""
    checks = verification.checks if verification else ()
    return {
        "verification": verification.outcome if verification else None,
        "checks": [check_json(check) for check in checks],
        "failure": failure_json(failure, diff, trouble) if failure else None,
        "changed_files": [change.path for change in diff.changes] if diff else [],
        "diff": diff.text if diff else "",
        "diff_is_cut": diff.is_cut if diff else False,
        "diff_sha256": diff.sha256 if diff else None,
        "provider_troubles": [
            {"status": one.status, "detail": one.detail, "retry_after": one.retry_after} for one in trouble
        ],
    }


def check_json(check: CheckResult) -> Json:
    """One check; the keys are the arguments of `CheckResult`."""
    return {
        "kind": check.kind, "name": check.name, "outcome": check.outcome, "expected": check.expected,
        "actual": check.actual, "duration": check.duration,
    }  # fmt: skip


def failure_json(failure: Failure, diff: Diff | None, trouble: Sequence[ProviderTrouble] = ()) -> Json:
    """The failure with its fingerprint, by which two attempts that failed identically are known."""
    last = trouble[-1] if trouble and failure.failure_class == "provider_error" else None
    return {
        "class": failure.failure_class,
        "detail": failure.detail,
        "check": check_json(failure.check) if failure.check else None,
        "fingerprint": fingerprint(failure, diff.sha256 if diff else None),
        "needs_person": last is not None and needs_person(last),
        "retry_after": last.retry_after if last else None,
    }


def attempt_evidence(
    maid: MaidDefinition,
    prompt: str,
    argv: Sequence[str],
    finished: Finished,
    *,
    verification: Verification | None,
    failure: Failure | None,
    diff: Diff | None,
    permissions: Sequence[Json] = (),
    trouble: Sequence[ProviderTrouble] = (),
    redactor: Redactor,
) -> Json:
    """The whole evidence of an attempt.

    Args:
        argv: as started.
        permissions: the maid's requests, each with its answer.
        trouble: what the proxy saw of the provider.
    """
    whole = {
        **launched(maid, prompt, argv),
        "permissions": list(permissions),
        **ended(finished),
        **judged(verification, failure, diff, trouble),
    }
    return fitted(whole, redactor)


def fitted(evidence: Mapping[str, Any], redactor: Redactor, limit: int = LIMIT) -> Json:
    """Evidence with secrets masked and in `limit` bytes at most; ``cut`` names the parts that were shortened.

    Masked before it is cut: half a secret would not be known any more. Of texts the end is kept, of the diff and the
    prompt the beginning.
    """
    whole: dict[str, Any] = cast(dict[str, Any], redactor.json(dict(evidence)))
    whole.pop("cut", None)
    cut: dict[str, str] = {}
    for place, most in _PLACES.items():
        if isinstance(text := whole.get(place), str) and len(text) > most:
            cut[place] = f"{len(text)} characters"
            whole[place] = _shortened(place, text, most)
    whole = {part: _short_lists(item, part, cut) for part, item in whole.items()}
    while _size(whole, cut) > limit:
        texts = [found for part in whole for found in _texts(whole, part, part)]
        longest = max((len(text) for *_, text in texts), default=0)
        if longest <= SHORTEST:
            # Nothing but many small things: whole parts go, the longest first.
            part = max(whole, key=lambda name: len(canonical_json(whole[name])))
            cut[part] = "left out"
            del whole[part]
            continue
        for part, holder, key, text in texts:
            if len(text) > longest // 2:
                cut.setdefault(part, f"texts of up to {len(text)} characters")
                holder[key] = _shortened(part, text, len(text) // 2)
    return {**whole, "cut": cut} if cut else whole


def _size(whole: Mapping[str, Any], cut: Mapping[str, str]) -> int:
    return len(canonical_json({**whole, "cut": dict(cut)}).encode("utf-8", "surrogatepass"))


def _shortened(part: str, text: str, most: int) -> str:
    return text[:most] if part in ("prompt", "diff") else text[-most:]


def _short_lists(value: Any, part: str, cut: dict[str, str]) -> Any:
    """A copy whose lists are short; of a long one the beginning."""
    if isinstance(value, dict):
        return {key: _short_lists(item, part, cut) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > MOST_ITEMS:
        cut[part] = f"{len(value)} items"
    return [_short_lists(item, part, cut) for item in value[:MOST_ITEMS]]


def _texts(holder: Any, key: Any, part: str) -> Iterator[tuple[str, Any, Any, str]]:
    """Every text at or below ``holder[key]``, with the part it belongs to and what holds it."""
    value = holder[key]
    if isinstance(value, str):
        yield part, holder, key, value
    elif isinstance(value, dict | list):
        for inner in list(value) if isinstance(value, dict) else range(len(value)):
            yield from _texts(value, inner, part)
