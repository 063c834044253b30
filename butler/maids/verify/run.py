"""All checks of a verification profile, made by Butler itself after an attempt (D8)."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from butler.maids.contract import CheckResult, Verification
from butler.maids.verify.children import Wrap
from butler.maids.verify.commands import Surroundings, check_command, check_exact_command
from butler.maids.verify.files import check_exact_file, check_file
from butler.maids.verify.findings import CheckError, Finding, bounded
from butler.maids.verify.http import check_exact_url, check_http
from butler.maids.verify.server import start_server, stop_server
from butler.maids.verify.urls import target_of
from config.maid_types import ExactOutput, FileCheck, HttpCheck, VerificationProfile

Kind = Literal["file", "command", "http", "exact_output", "start"]
Check = Callable[[], Awaitable[Finding]]


class Allowed(Protocol):
    """What the person's registry file allows checks to run and to ask."""

    @property
    def allowed_commands(self) -> tuple[tuple[str, ...], ...]:
        """Whole argument lists."""

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """Hosts other than loopback."""


async def verify(
    profile: VerificationProfile, tree: Path, registry: Allowed, environment: Mapping[str, str], mark: str, *,
    wrap: Wrap | None = None, serving: asyncio.Lock | None = None,
) -> Verification:  # fmt: skip
    """Make every check of a profile, one after the other: files, commands, then the server and its URLs.

    Commands may write into the tree, so files are looked at again in the end. Cancelling ends all that was started.

    Args:
        tree: the maid's working tree, where nothing of the maid runs any more.
        registry: the allowlists.
        environment: complete for commands and server, but for the mark; scrubbed like that of a maid.
        mark: value of MAID_RUN for all processes that are started; not that of the maid's own processes.
        wrap: puts commands and server into a sandbox.
        serving: held while a server runs, since two of them may want one port.
    """
    if profile.is_empty:
        return Verification("unverified")
    around = Surroundings(tree, environment, mark, registry.allowed_commands, wrap)
    hosts = registry.allowed_hosts
    done = [await _file(tree, check) for check in profile.file_checks]
    for command in profile.test_commands:
        check = _bind(check_command, around, command.command, command.timeout)
        done.append(await _made("command", shlex.join(command.command), "exit status 0", None, check))
    done += [await _exact(around, exact, hosts) for exact in profile.exact_output if exact.url is None]
    async with serving if serving is not None and profile.start is not None else nullcontext():
        done += await _served(profile, around, hosts)
    if profile.test_commands or profile.http_checks or any(one.path is None for one in profile.exact_output):
        done = await _files_again(done, profile, around, hosts)
    return Verification(_outcome(done), tuple(done))


async def _files_again(
    done: list[CheckResult], profile: VerificationProfile, around: Surroundings, hosts: tuple[str, ...]
) -> list[CheckResult]:
    """Look once more at the files: programs of the project ran meanwhile, and what is there now is what counts."""
    first_exact = len(profile.file_checks) + len(profile.test_commands)
    exact = [one for one in profile.exact_output if one.url is None]
    again = {place: await _file(around.tree, check) for place, check in enumerate(profile.file_checks)}
    again |= {
        first_exact + place: await _exact(around, one, hosts) for place, one in enumerate(exact) if one.path is not None
    }
    return [_last(result, again.get(place, result)) for place, result in enumerate(done)]


def _last(first: CheckResult, again: CheckResult) -> CheckResult:
    if again is first or again.outcome == "passed" or first.outcome != "passed":
        return first
    return replace(again, actual=bounded(f"It passed, but no more after the other checks had run. {again.actual}"))


def _outcome(done: list[CheckResult]) -> Literal["passed", "failed", "error"]:
    outcomes = {result.outcome for result in done}
    return "failed" if "failed" in outcomes else "error" if "error" in outcomes else "passed"


def _bind(check: Callable[..., Awaitable[Finding]], *args: object) -> Check:
    return lambda: check(*args)


async def _made(kind: Kind, name: str, expected: str, within: float | None, check: Check) -> CheckResult:
    """Make one check in its seconds (None: it minds the time itself) and tell errors from failures."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(within):
            finding = await check()
    except CheckError as error:
        finding = Finding("error", str(error))
    except TimeoutError:
        finding = Finding("failed", f"It took longer than {within:g} s.")
    except OSError as error:
        finding = Finding("error", f"The check could not be made: {error.strerror or error}.")
    took = round(time.monotonic() - began, 3)
    return CheckResult(kind, bounded(name, 500), finding.outcome, bounded(expected), bounded(finding.actual), took)


async def _file(tree: Path, check: FileCheck) -> CheckResult:
    expected = "no such file" if not check.exists else "a file"
    if check.exists and check.contains is not None:
        expected = f"a file with the text:\n{check.contains}"
    return await _made("file", check.path, expected, check.timeout, _bind(asyncio.to_thread, check_file, tree, check))


async def _exact(around: Surroundings, exact: ExactOutput, hosts: tuple[str, ...]) -> CheckResult:
    if exact.command is not None:
        # The time-out of a command ends its processes, so it is the command's own.
        check = _bind(check_exact_command, around, exact.command, exact.expect, exact.timeout)
        return await _made("exact_output", shlex.join(exact.command), _exactly(exact), None, check)
    if exact.url is not None:
        check = _bind(check_exact_url, exact.url, exact.expect, hosts)
        return await _made("exact_output", exact.url, _exactly(exact), exact.timeout, check)
    check = _bind(asyncio.to_thread, check_exact_file, around.tree, exact.path or "", exact.expect)
    return await _made("exact_output", exact.path or "", _exactly(exact), exact.timeout, check)


def _exactly(exact: ExactOutput) -> str:
    return f"exactly:\n{exact.expect}"


async def _served(profile: VerificationProfile, around: Surroundings, hosts: tuple[str, ...]) -> list[CheckResult]:
    """Make the URL checks, with their server around them where the profile has one."""
    exact = [one for one in profile.exact_output if one.url is not None]
    urls = [*(check.url for check in profile.http_checks), *(one.url for one in exact if one.url is not None)]
    if profile.start is None or not urls:
        return await _urls(profile.http_checks, exact, around, hosts)
    began = time.monotonic()
    name, expected = shlex.join(profile.start), f"an answer at {urls[0]} within {profile.ready_within:g} s"
    try:
        server = await start_server(around, profile.start, await target_of(urls[0], hosts), profile.ready_within)
    except CheckError as error:
        finding, results = Finding("error", str(error)), []
    else:
        try:
            ready = server.finding.outcome == "passed"
            results = await _urls(profile.http_checks, exact, around, hosts) if ready else []
        finally:
            finding = await stop_server(server)
    started = CheckResult(
        "start", bounded(name, 500), finding.outcome, bounded(expected), bounded(finding.actual),
        round(time.monotonic() - began, 3),
    )  # fmt: skip
    if not results:
        results = [_not_asked(url, finding) for url in urls]
    return [started, *results]


def _not_asked(url: str, start: Finding) -> CheckResult:
    return CheckResult("http", bounded(url, 500), start.outcome, "an answer", "Not asked: the server did not run.", 0.0)


async def _urls(
    checks: tuple[HttpCheck, ...], exact: list[ExactOutput], around: Surroundings, hosts: tuple[str, ...]
) -> list[CheckResult]:
    results = []
    for check in checks:
        expected = f"status {check.expect_status}"
        if check.expect_body is not None:
            expected += f" and a body with the text:\n{check.expect_body}"
        results.append(await _made("http", check.url, expected, check.timeout, _bind(check_http, check, hosts)))
    return results + [await _exact(around, one, hosts) for one in exact]
