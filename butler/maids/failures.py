"""The one table of failures: how each is told, whether it is tried again, and what the maid hears next (D7)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from butler.canonical import canonical_json
from butler.maids import signs
from butler.maids.contract import Failure, FailureClass, ProviderTrouble, ToolUse
from butler.maids.forbidden import command_of, forbidden_command
from butler.maids.observation import Observation

EMPTY_DIFF = hashlib.sha256(b"").hexdigest()
_TRUNCATED = frozenset({"max_tokens", "max_turn_requests", "max_output_tokens", "length"})


@dataclass(frozen=True)
class FailureKind:
    """One class of failure; the order of the table is the order in which they are looked for.

    `spends`: it counts against the number of attempts. `tell` is what the maid is told next, `forbid` what it may not
    do now, `sentence` what a person reads. `detect` gives a detail, or None where it is not this; a `Stop` of that
    class needs no detecting. `stands`: it fails the attempt even if all checks passed. `names` is the outcome of the
    check that a failure of this class names. `keeps_session`: the next attempt goes on with the agent's session, where
    it can; not where the session itself is the trouble.
    """

    failure_class: FailureClass
    retryable: bool
    spends: bool
    tell: str
    forbid: str
    sentence: str
    detect: Callable[[Observation], str | None] = lambda seen: None
    stands: bool = False
    names: Literal["failed", "error"] = "failed"
    keeps_session: bool = False


def classify(seen: Observation) -> Failure | None:
    """Say why an attempt does not count as done; None where it passed, or where there was nothing to check it by.

    The world decides: with all checks passed, neither an exit code nor a time-out nor words make a failure of it, only
    a broken rule does. Without any check (`unverified`) only what is wrong for certain is a failure.
    """
    stop = seen.finished.stopped
    for kind in FAILURES:
        if seen.passed and not kind.stands:
            continue
        told = stop.detail if stop is not None and stop.failure_class == kind.failure_class else None
        detail = kind.detect(seen) if told is None else told
        if detail is not None:
            return Failure(kind.failure_class, detail[:2_000], seen.first_check(kind.names))
    return None


def kind_of(failure_class: FailureClass) -> FailureKind:
    """The entry of a class."""
    return next(kind for kind in FAILURES if kind.failure_class == failure_class)


def fingerprint(failure: Failure, diff_sha256: str | None) -> str:
    """What two attempts that failed identically have in common: class, failing check, what it found, and diff."""
    check = failure.check
    found = [check.kind, check.name, check.outcome, _without_times(check.actual)] if check else []
    text = canonical_json([failure.failure_class, *found, diff_sha256 or EMPTY_DIFF])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def same_failure(one: Failure, one_sha256: str | None, other: Failure, other_sha256: str | None) -> bool:
    """Whether two attempts failed identically, so that a third would do the same; takes the diffs' SHA-256."""
    return fingerprint(one, one_sha256) == fingerprint(other, other_sha256)


def needs_person(trouble: ProviderTrouble) -> bool:
    """Whether waiting does not help against a provider's answer: key, credit or model are wrong."""
    return trouble.status in (401, 402, 403, 404) or _is_full(trouble)


def _is_full(trouble: ProviderTrouble) -> bool:
    """Whether a request was longer than the model takes: the same one would be so again."""
    return trouble.status in (400, 413) and signs.limit(trouble.detail) is not None


def _is_full_midway(seen: Observation) -> bool:
    """Whether the model's context filled up while the agent worked: one that begins anew has room again."""
    return bool(seen.trouble) and not seen.recovered and _is_full(seen.trouble[-1]) and bool(seen.tools)


def _without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+ ?m?s\b|\b0x[0-9a-f]+\b|\bpid \d+", "#", text)


def _escaped(seen: Observation) -> str | None:
    outside = seen.outside
    if seen.passed or (seen.verification is not None and seen.verification.outcome == "unverified"):
        # The project's own files are edited by the person, too; who approves is told of them.
        outside = tuple(path for path in outside if path.startswith(("/", ".git/")))
    if not outside:
        return None
    paths = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
    return f"It changed what is outside of the project's folder: {paths}."


def _did_what_was_refused(seen: Observation) -> str | None:
    refused = {request.call_id for request in seen.refusals}
    for tool in seen.tools:
        if tool.call_id in refused and tool.status == "completed":
            return f"It did what had been refused: {tool.title[:200]}."
    return None


def _check_error(seen: Observation) -> str | None:
    if seen.verification is None or seen.verification.outcome != "error":
        return None
    check = seen.first_check("error")
    return f"The check {check.name!r} could not be made: {check.actual}" if check else "A check could not be made."


def _provider(seen: Observation) -> str | None:
    if _is_full_midway(seen):
        return None
    if seen.trouble and not seen.recovered:
        last = seen.trouble[-1]
        answer = f"status {last.status}" if last.status else "no answer"
        return f"The model provider gave {answer}: {last.detail[:300]}"
    if seen.has_changes or signs.claims_done(seen.last_text):
        return None
    words = signs.provider_error(seen.last_text)
    if words is None and seen.finished.exit_code != 0:
        words = signs.provider_error(seen.finished.stderr_tail)
    return f"It told of its provider: {words!r}." if words else None


def _loop(seen: Observation) -> str | None:
    words = None if seen.has_changes else signs.loop(seen.last_text)
    return f"It stopped its own loop: {words!r}." if words else None


def _hangs(seen: Observation) -> str | None:
    stop = seen.finished.stopped
    open_call = next((tool for tool in reversed(seen.tools) if tool.status == "in_progress"), None)
    if stop is None or stop.failure_class != "timeout" or open_call is None:
        return None
    return f"The tool call {open_call.title[:200]!r} was still running when the time was over."


def _forbidden(seen: Observation) -> str | None:
    for tool in seen.tools:
        command = command_of(tool.raw_input)
        act = forbidden_command(command) if command is not None else None
        if act is not None:
            return f"It tried a forbidden act: {act}."
    return None


def _tool_missing(seen: Observation) -> str | None:
    """A program that was not there, where nothing that worked came after it."""
    finished = seen.finished
    if finished.exit_code == 127 or (not seen.tools and finished.exit_code):
        name = signs.missing_tool(finished.stderr_tail) or signs.missing_tool(finished.stdout_tail)
        if name is not None or finished.exit_code == 127:
            return _named(name or "?")
    later: list[ToolUse] = []
    for tool in reversed(seen.tools):
        name = signs.missing_tool(tool.output)
        if name is not None:
            return None if any(one.status == "completed" for one in later) and seen.has_changes else _named(name)
        later.append(tool)
    return None


def _named(name: str) -> str:
    return "A program that it called is not there." if name == "?" else f"The program {name!r} is not there."


def _asked(seen: Observation) -> str | None:
    words = None if seen.has_changes else signs.question(seen.last_text)
    if words and signs.claims_done(seen.last_text) and not signs.asks_leave(words):
        return None  # a polite word after a made-up success
    return f"It asked and did nothing: {words!r}." if words else None


def _stopped_early(seen: Observation) -> str | None:
    finished = seen.finished
    if finished.stop_reason in _TRUNCATED:
        return f"It stopped in the middle ({finished.stop_reason})."
    if _is_full_midway(seen):
        return "What it had read and said no longer fitted into its model's context."
    if words := signs.printed_call(seen.last_text):
        return f"It printed a tool call as text instead of making it: {words!r}."
    if words := signs.limit(seen.last_text):
        return f"It came to a limit of its own: {words!r}."
    left = finished.plan_left or signs.open_items(seen.last_text)
    return f"It stopped with {left} items of its plan left." if left else None


def _unfounded(seen: Observation) -> str | None:
    if not signs.claims_done(seen.last_text):
        return None
    if seen.diff is not None and seen.diff.is_empty:
        return "It says that the work is done, and nothing has changed."
    check = seen.first_check("failed")
    if check is None or seen.diff is None or check.kind not in ("file", "exact_output"):
        return None
    paths = {path for change in seen.diff.changes for path in (change.path, change.old_path) if path}
    is_path = not check.name.startswith(("http://", "https://"))
    if is_path and _plain(check.name) not in paths and "no such file" in check.actual.lower():
        return f"It says that the work is done, and {check.name!r} is not among what it changed."
    return None


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _unchanged(seen: Observation) -> str | None:
    return "Nothing has changed." if seen.diff is not None and seen.diff.is_empty else None


def _wrong(seen: Observation) -> str | None:
    check = seen.first_check("failed")
    if check is None:
        return None
    count = sum(one.outcome == "failed" for one in seen.verification.checks) if seen.verification else 1
    others = f"; {count - 1} more failed" if count > 1 else ""
    return f"The check {check.name!r} failed{others}."


def _unexplained(seen: Observation) -> str | None:
    """Without checks nothing is wrong for certain; without even a verification the attempt never came to its end."""
    if seen.verification is not None and seen.verification.outcome == "unverified":
        return None
    return f"It ended with exit code {seen.finished.exit_code} and no known cause."


def _cancelled(seen: Observation) -> str | None:
    return "It waited for a person's answer to a permission request." if seen.finished.awaits_permission else None


FAILURES: tuple[FailureKind, ...] = (
    FailureKind(
        "cancelled", False, False, "The attempt was cancelled.", "", "The attempt was cancelled.",
        _cancelled, stands=True,
    ),
    FailureKind(
        "policy_violation", False, True,
        "You did, or asked for again, what had been refused.",
        "Do not ask again for what was refused, and do not do it by another way.",
        "The maid did, or kept asking for, what had been refused.",
        _did_what_was_refused, stands=True,
    ),
    FailureKind(
        "wrong_directory", True, True,
        "You worked outside of the project's folder. Nothing there counts.",
        "Do not read, write or create anything outside of the project root; use paths relative to it.",
        "The maid worked outside of the project's folder.",
        _escaped, stands=True,
    ),
    FailureKind(
        "launch_error", False, True, "You could not be started.", "", "The maid could not be started.", stands=True
    ),
    FailureKind(
        "verifier_error", False, True, "A check could not be made.", "",
        "A check could not be made, so the work is neither right nor wrong; the check has to be repaired.",
        _check_error, names="error",
    ),
    FailureKind(
        "provider_error", True, False, "The model could not be reached.", "",
        "The maid's model provider failed.", _provider,
    ),
    FailureKind(
        "loop_detected", True, True,
        "You repeated the same step without coming further.",
        "Do not make a tool call again that gave you nothing new. Take another way, or another tool.",
        "The maid repeated the same step without end.", _loop,
    ),
    FailureKind(
        "hung_foreground", True, True,
        "You started something that does not end by itself and waited for it.",
        "Do not start servers, watchers or anything that runs on; do not wait for input.",
        "The maid waited for a program that does not end.", _hangs,
    ),
    FailureKind(
        "timeout", True, True,
        "The time was over before you had finished.",
        "Do not explore the project at length and do not run anything slow. Make the necessary change first.",
        "The maid did not finish in time.",
    ),
    FailureKind(
        "forbidden_action", True, True,
        "You tried an act that is forbidden.",
        "Do not install, update or remove packages, do not push, do not use sudo. Use what is there.",
        "The maid tried what it was forbidden to do.", _forbidden,
    ),
    FailureKind(
        "tool_missing", True, True,
        "You called a program that is not there.",
        "Do not call that program again and do not try to install it. Use another one, or your own tools.",
        "The maid needed a program that is not there.", _tool_missing, keeps_session=True,
    ),
    FailureKind(
        "asked_question", True, True,
        "You asked a question instead of working. Nobody answers questions: go on, and decide by yourself.",
        "Do not ask questions and do not wait for a confirmation.",
        "The maid asked back instead of working.", _asked, keeps_session=True,
    ),
    FailureKind(
        "premature_stop", True, True,
        "You stopped before the work was done.",
        "Do not stop, and do not print tool calls as text, before every part is done. Work in smaller steps.",
        "The maid stopped in the middle.", _stopped_early,
    ),
    FailureKind(
        "false_completion", True, True,
        "You said that the work is done. It is not: the folder was looked at from outside.",
        "Do not say that something is done before you have written it and looked at the result.",
        "The maid said that the work is done, and it is not.", _unfounded, keeps_session=True,
    ),
    FailureKind(
        "no_changes", True, True,
        "You ended without changing any file.",
        "Do not end before the files are changed; an answer in words does not count.",
        "The maid changed nothing.", _unchanged, keeps_session=True,
    ),
    FailureKind(
        "wrong_output", True, True,
        "What you did does not pass the checks.",
        "Do not change the checks or the tests to make them pass.",
        "The work does not pass its checks.", _wrong, keeps_session=True,
    ),
    FailureKind(
        "unknown", True, True,
        "The attempt ended for a reason that is not known.",
        "Do not do it in the same way again.",
        "The attempt failed for a reason that is not known.", _unexplained,
    ),
)  # fmt: skip
"""Adding a class is one entry here and its name in `FailureClass`."""
