"""The channels of people as the server uses them: known by a digest, so that no URL is stored or shown (B7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from config.notify_file import ChannelDefinition, Event
from config.notify_urls import password_of, secrets_of

KEY_LENGTH = 12


@dataclass(frozen=True)
class Channel:
    """One URL of one person."""

    key: str
    definition: ChannelDefinition

    @property
    def user(self) -> str:
        """The name of the person whose channel it is."""
        return self.definition.user

    @property
    def shown(self) -> str:
        """The channel as people may read it: the service's name and the digest."""
        return f"{self.definition.service}#{self.key}"

    @property
    def url(self) -> str:
        """The URL itself, for the sender alone."""
        return self.definition.url.get_secret_value()


class Channels:
    """All channels of the configuration."""

    def __init__(self, definitions: Iterable[ChannelDefinition]) -> None:
        made = [Channel(channel_key(definition), definition) for definition in definitions]
        self._by_key = {channel.key: channel for channel in made}

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: str) -> Channel | None:
        """The channel with that key; None when the configuration no longer has it."""
        return self._by_key.get(key)

    def of(self, user: str, event: Event | None = None) -> list[Channel]:
        """The channels of a person, only those for `event` if given."""
        return [one for one in self if one.user == user and (event is None or event in one.definition.events)]

    def users(self) -> set[str]:
        """The names of everyone who has a channel."""
        return {channel.user for channel in self}


def channel_key(definition: ChannelDefinition) -> str:
    """A digest of whose channel it is and where it leads; too short to find a URL by trying."""
    text = f"{definition.user}\0{definition.url.get_secret_value()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_LENGTH]


def secrets_of_channels(definitions: Iterable[ChannelDefinition]) -> set[str]:
    """What the house masks wherever it shows text: URLs, passwords, and parts that can hardly be ordinary words."""
    found: set[str] = set()
    for definition in definitions:
        url = definition.url.get_secret_value()
        found |= {url, password_of(url)}
        found |= {piece for piece in secrets_of(url) if _looks_secret(piece)}
    return found


def _looks_secret(piece: str) -> bool:
    return len(piece) >= 10 and any(char.isdigit() for char in piece) and any(char.isalpha() for char in piece)
