"""A verification profile as it is written: in maid_registry.yml, and as what a caller expects (D8)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, WithJsonSchema

from config.maid_commands import Arguments, Fault, allowed_fault, beside
from config.maid_types import CommandCheck, ExactOutput, FileCheck, HttpCheck, VerificationProfile
from config.strict import Checker, Entry
from config.yaml_source import Source

Text = Annotated[str, Field(min_length=1)]
Timeout = Annotated[float, Field(gt=0, le=86_400, description="Seconds")]
_UNSENDABLE = re.compile(r"[\x00-\x20\x7f\\]|[^\x00-\x7f]")
_ARGUMENTS_SCHEMA = {"type": "array", "items": {"type": "string"}, "minItems": 1}


class FileCheckEntry(Entry):
    """A file that has to be there, or must not, and may have to contain a text."""

    path: Text = Field(description="Relative to the project's folder")
    exists: bool = True
    contains: str | None = None
    timeout: Timeout = 30.0


class HttpCheckEntry(Entry):
    """A URL that has to answer."""

    url: Text = Field(description="Loopback, unless its host is in allowed_hosts")
    expect_status: Annotated[int, Field(ge=100, le=599)] = 200
    expect_body: str | None = Field(None, description="A text that the answer has to contain")
    timeout: Timeout = 30.0


class CommandCheckEntry(Entry):
    """A command that has to exit with 0."""

    command: Arguments
    timeout: Timeout = 300.0


class ExactOutputEntry(Entry):
    """A file, an answer or an output that has to be exactly a text; one of path, url and command."""

    path: Text | None = None
    url: Text | None = None
    command: Arguments | None = None
    expect: str
    timeout: Timeout = 300.0


def _command(value: Any) -> Any:
    if isinstance(value, list):
        return {"command": value}
    if not isinstance(value, dict):
        raise ValueError(f"expected an argument list, such as [make, test], got {value!r:.80}")
    return value


TestCommand = Annotated[
    CommandCheckEntry,
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                _ARGUMENTS_SCHEMA,
                {
                    "type": "object",
                    "properties": {
                        "command": _ARGUMENTS_SCHEMA,
                        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86_400},
                    },
                    "required": ["command"],
                    "additionalProperties": False,
                },
            ],
            "description": "An argument list equal to an entry of allowed_commands, or {command, timeout}",
        }
    ),
]


class ProfileEntry(Entry):
    """What is checked after an attempt; without any check it ends as unverified."""

    file_checks: list[FileCheckEntry] = Field([])
    test_commands: list[TestCommand] = Field([])
    http_checks: list[HttpCheckEntry] = Field([])
    exact_output: list[ExactOutputEntry] = Field([])
    start: Arguments | None = Field(None, description="A server for the URLs, equal to an entry of allowed_commands")
    ready_within: Timeout = 30.0


@dataclass(frozen=True)
class Allowed:
    """What checks may use: commands with scripts already found beside the registry, hosts, the registry's folder."""

    commands: Sequence[tuple[str, ...]]
    hosts: Sequence[str]
    folder: Path

    def command_fault(self, command: Sequence[str]) -> str | None:
        """Why the command may not be run."""
        return allowed_fault(beside(command, self.folder), self.commands)


def profile_faults(entry: ProfileEntry, allowed: Allowed) -> Iterator[Fault]:
    """What no single key can tell; the places are within the profile."""
    for index, check in enumerate(entry.file_checks):
        place = ("file_checks", index)
        if fault := path_fault(check.path):
            yield (*place, "path"), fault
        if check.contains is not None and not check.exists:
            yield (*place, "contains"), "has no meaning with exists: false"
    for index, command in enumerate(entry.test_commands):
        if fault := allowed.command_fault(command.command):
            yield ("test_commands", index), fault
    for index, url in enumerate(entry.http_checks):
        if fault := url_fault(url.url, allowed.hosts):
            yield ("http_checks", index, "url"), fault
    for index, exact in enumerate(entry.exact_output):
        yield from _exact_faults(exact, ("exact_output", index), allowed)
    if entry.start is not None:
        if fault := allowed.command_fault(entry.start):
            yield ("start",), fault
        if not entry.http_checks and not any(exact.url for exact in entry.exact_output):
            yield ("start",), "starts a server, but no check has a URL"
    elif "ready_within" in entry.model_fields_set:
        yield ("ready_within",), "has a meaning only with 'start'"


def _exact_faults(exact: ExactOutputEntry, place: tuple[str, int], allowed: Allowed) -> Iterator[Fault]:
    given = [key for key in ("path", "url", "command") if getattr(exact, key) is not None]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        yield place, f"expected exactly one of 'path', 'url' and 'command', got {said}"
    if exact.path is not None and (fault := path_fault(exact.path)):
        yield (*place, "path"), fault
    if exact.url is not None and (fault := url_fault(exact.url, allowed.hosts)):
        yield (*place, "url"), fault
    if exact.command is not None and (fault := allowed.command_fault(exact.command)):
        yield (*place, "command"), fault


def path_fault(path: str) -> str | None:
    """Why a text is no path inside the tree; links are resolved when the check is made."""
    if "\0" in path:
        return "the NUL character can't be part of a path"
    pure = PurePosixPath(path)
    if pure.is_absolute() or path.startswith("~") or ".." in pure.parts or pure == PurePosixPath("."):
        return f"{path!r} must be a path inside the project's folder: relative, without '..'"
    return None


def url_fault(url: str, hosts: Sequence[str]) -> str | None:
    """Why a URL may not be asked: it must be http or https, on a loopback address or an allowed host."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"{url!r} is no URL: {error}"
    if _UNSENDABLE.search(url) or parts.scheme not in ("http", "https") or not host:
        return f"{url!r} must be a URL such as 'http://127.0.0.1:8000/'"
    if parts.username is not None or parts.password is not None:
        return "a URL with a user or a password is not allowed"
    if is_loopback(host) or host in {allowed.lower() for allowed in hosts}:
        return None
    return f"the host {host!r} is neither a loopback address nor in allowed_hosts"


def is_loopback(host: str) -> bool:
    """Whether a host, as in a URL, certainly is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def profile_of(entry: ProfileEntry, folder: Path) -> VerificationProfile:
    """The profile out of a checked entry."""
    return VerificationProfile(
        file_checks=tuple(FileCheck(**check.model_dump()) for check in entry.file_checks),
        test_commands=tuple(
            CommandCheck(beside(check.command, folder), check.timeout) for check in entry.test_commands
        ),
        http_checks=tuple(HttpCheck(**check.model_dump()) for check in entry.http_checks),
        exact_output=tuple(
            ExactOutput(
                expect=check.expect,
                path=check.path,
                url=check.url,
                command=None if check.command is None else beside(check.command, folder),
                timeout=check.timeout,
            )
            for check in entry.exact_output
        ),
        start=None if entry.start is None else beside(entry.start, folder),
        ready_within=entry.ready_within,
    )


def read_profile(value: Mapping[str, Any], allowed: Allowed) -> tuple[VerificationProfile, tuple[str, ...]]:
    """The profile that a caller expects, and what is wrong with it as ``KEY: message``; faulty ones come back empty.

    Args:
        value: as in maid_registry.yml, out of JSON.
        allowed: what the registry allows; a caller can't allow more.
    """
    checker = Checker(Source("expect", Path("expect"), value, {}))
    entry = checker.model(ProfileEntry, dict(value))
    if entry is not None:
        for place, message in profile_faults(entry, allowed):
            checker.fault(place, message)
    if entry is None or checker.problems:
        return VerificationProfile(), tuple(f"{problem.key}: {problem.message}" for problem in checker.problems)
    return profile_of(entry, allowed.folder), ()
