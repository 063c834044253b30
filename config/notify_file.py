"""notify.yml: who hears of approval requests and replies, and through which Apprise URLs (B7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from config.notify_urls import service_of, split_urls, url_fault
from config.problems import ConfigError, Problem
from config.strict import Checker, Entry
from config.templates import Argument, parse_template
from config.yaml_source import Loc, read_yaml

Event = Literal["approvals", "replies"]
EVENTS: tuple[Event, ...] = ("approvals", "replies")
OWNER = "owner"
VARIABLE = "BUTLER_NOTIFY_URLS"


class PersonEntry(Entry):
    """One person of the file."""

    user: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="The user's name; one entry each")
    urls: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] = Field(
        description="Apprise URLs; ${NAME} inserts a variable, so that no secret stands here"
    )
    events: Annotated[list[Event], Field(min_length=1)] = Field(list(EVENTS), description="What this person is told of")
    links: bool = Field(True, description="Whether approval requests carry a link that decides as this person")


class NotifyDocument(Entry):
    """The whole file, for the published schema."""

    people: list[PersonEntry] = Field([])


@dataclass(frozen=True)
class ChannelDefinition:
    """One URL of one person, checked; `variables` are the names that it was filled from."""

    user: str
    url: SecretStr
    events: frozenset[Event]
    links: bool
    source: str
    variables: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        """The Apprise name of the service."""
        return service_of(self.url.get_secret_value())


def owners_channels(urls: SecretStr | None) -> tuple[ChannelDefinition, ...]:
    """The channels of BUTLER_NOTIFY_URLS, which are the owner's. Raises ConfigError."""
    if urls is None:
        return ()
    found = list(dict.fromkeys(split_urls(urls.get_secret_value())))
    faults = [
        Problem("environment", 0, VARIABLE, f"URL {number} of {len(found)}: {fault}")
        for number, url in enumerate(found, 1)
        if (fault := url_fault(url))
    ]
    if faults:
        raise ConfigError(faults)
    return tuple(ChannelDefinition(OWNER, SecretStr(url), frozenset(EVENTS), True, VARIABLE) for url in found)


def load_notify_file(
    path: Path, environ: Mapping[str, str], *, cwd: Path | None = None
) -> tuple[ChannelDefinition, ...]:
    """Read notify.yml; an absent file names nobody.

    Args:
        environ: the variables in force; a ``${NAME}`` that is not among them is a fault.

    Raises:
        ConfigError: one problem per fault; none repeats a URL.
    """
    source = read_yaml(path, cwd)
    checker = Checker(source)
    seen: dict[str, Loc] = {}
    channels: list[ChannelDefinition] = []
    for loc, raw in checker.entries("people", NotifyDocument):
        entry = checker.model(PersonEntry, raw, loc)
        user = raw.get("user")
        if isinstance(user, str) and user in seen:
            checker.fault((*loc, "user"), f"{user!r} has an entry already at {checker.place((*seen[user], 'user'))}")
        elif isinstance(user, str):
            seen[user] = loc
        if entry is not None:
            channels += _channels(checker, entry, loc, environ)
    if checker.problems:
        problems = [_without_value(problem) for problem in checker.problems]
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    return tuple(channels)


def _channels(checker: Checker, entry: PersonEntry, loc: Loc, environ: Mapping[str, str]) -> list[ChannelDefinition]:
    found: dict[str, ChannelDefinition] = {}
    for index, written in enumerate(entry.urls):
        place = (*loc, "urls", index)
        filled = _filled(checker, place, written, environ)
        if filled is None:
            continue
        url, variables = filled
        if fault := url_fault(url):
            checker.fault(place, fault)
        elif url in found:
            checker.fault(place, "this URL is listed twice for this person")
        else:
            found[url] = ChannelDefinition(
                entry.user, SecretStr(url), frozenset(entry.events), entry.links, checker.place(place), variables
            )
    return list(found.values())


def _filled(
    checker: Checker, place: Loc, written: str, environ: Mapping[str, str]
) -> tuple[str, tuple[str, ...]] | None:
    """The URL with its variables' values put in as they are, and the variables' names."""
    try:
        template = parse_template(written, variables=True)
    except ValueError:
        checker.fault(place, "a brace stands alone or holds no name; write '{{' or '}}' for the character")
        return None
    if any(isinstance(part, Argument) for part in template.parts):
        checker.fault(place, "a variable is written ${NAME}; '{NAME}' has no meaning here")
        return None
    unset = [name for name in template.variables if not environ.get(name)]
    for name in unset:
        checker.fault(place, f"the environment variable {name!r} is not set")
    if unset:
        return None
    return template.fill(lambda name: name, lambda name: environ[name].strip()), template.variables


def _without_value(problem: Problem) -> Problem:
    """A URL written with its secret, or in the wrong place, must not get to the terminal or a log."""
    if "://" in problem.message and "Apprise URL" not in problem.message:
        return dataclasses.replace(problem, message="has a URL where none belongs")
    if problem.key.startswith(("urls", "people")):
        return dataclasses.replace(problem, message=problem.message.partition(", got ")[0])
    return problem
