"""Runs git as an argument list: scrubbed environment, nothing executed from configuration, bounded in time (D6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from butler.errors import ButlerError

SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
    "core.quotePath=false", "core.protectHFS=true", "core.protectNTFS=true", "core.checkStat=default",
    "core.trustctime=true", "gc.auto=0", "maintenance.auto=false", "safe.directory=*", "protocol.allow=never",
    "submodule.recurse=false", "diff.external=", "index.threads=1",
)  # fmt: skip
"""``safe.directory``: project roots are allowlisted by the owner, and nothing of their configuration is executed."""

DEFAULT_SECONDS = 300.0


def environment() -> dict[str, str]:
    """All variables that git gets: none of Butler's own but PATH, and no configuration of machine or person."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
    }


@dataclass(frozen=True)
class Answer:
    """Exit code, standard output (empty where it went to a file) and standard error of one git command."""

    code: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Git:
    """A place to run git in. Without `git_dir` git finds the repository of `cwd`; `index` is a file of its own.

    `within` is the bound of one command in seconds, where it names none itself. Names are meant as written
    (`literal`), but for the few commands that don't know of that.
    """

    cwd: Path
    git_dir: Path | None = None
    index: Path | None = None
    within: float = DEFAULT_SECONDS
    literal: bool = True

    async def run(
        self, *arguments: str, stdin: bytes = b"", into: Path | None = None, within: float | None = None
    ) -> bytes:
        """Run one command that has to exit with 0 and give its standard output.

        Raises:
            ButlerError: git is missing, failed, or took longer than `within` seconds.
        """
        answer = await self.call(*arguments, stdin=stdin, into=into, within=within)
        if answer.code:
            raise failed(arguments, answer)
        return answer.out

    async def call(
        self, *arguments: str, stdin: bytes = b"", into: Path | None = None, within: float | None = None
    ) -> Answer:
        """Run one command whatever its exit code; `into` is a file for its standard output."""
        within = self.within if within is None else within
        with contextlib.ExitStack() as stack:
            target: int | IO[bytes] = subprocess.PIPE
            if into is not None:
                target = stack.enter_context(await asyncio.to_thread(into.open, "wb"))
            process = await self._start(arguments, target, subprocess.PIPE if stdin else subprocess.DEVNULL)
            try:
                async with asyncio.timeout(within):
                    out, err = await process.communicate(stdin or None)
            except TimeoutError:
                raise ButlerError(
                    "internal",
                    f"git {arguments[0]} took longer than {within:.0f} s in {self.cwd}. Is the project very large or "
                    "its disk busy? Try again.",
                ) from None
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
        return Answer(process.returncode or 0, out or b"", err or b"")

    async def _start(
        self, arguments: tuple[str, ...], target: int | IO[bytes], source: int
    ) -> asyncio.subprocess.Process:
        variables = environment()
        if not self.literal:
            del variables["GIT_LITERAL_PATHSPECS"]
        if self.git_dir is not None:
            variables |= {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.cwd)}
        if self.index is not None:
            variables["GIT_INDEX_FILE"] = str(self.index)
        options = [word for setting in SETTINGS for word in ("-c", setting)]
        try:
            return await asyncio.create_subprocess_exec(
                "git", *options, *arguments,
                cwd=self.cwd, env=variables, stdin=source, stdout=target, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            if not self.cwd.is_dir():
                raise ButlerError("not_found", f"The folder {self.cwd} does not exist (any more).") from None
            raise ButlerError("internal", "git was not found. Maids need it: install git and try again.") from None


def failed(arguments: tuple[str, ...], answer: Answer) -> ButlerError:
    """The error of a git command that failed, with the end of what git said."""
    said = answer.err.decode("utf-8", "replace").strip()[-600:] or "nothing"
    return ButlerError("internal", f"git {arguments[0]} failed with exit code {answer.code}. It said: {said}")


def split_z(data: bytes) -> list[str]:
    """The parts of NUL-terminated output; names that are no UTF-8 keep their bytes as surrogates."""
    return [os.fsdecode(part) for part in data.split(b"\0") if part]


def join_z(names: list[str]) -> bytes:
    """Names as NUL-terminated input."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)
