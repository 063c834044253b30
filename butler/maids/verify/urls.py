"""Which URLs a check may ask, and the addresses that their host is pinned to (D8)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from butler.maids.verify.findings import CheckError

LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Target:
    """A URL that may be asked; it is connected to at one of `addresses`, whatever its name means later."""

    url: httpx.URL
    addresses: tuple[str, ...]
    loopback: bool

    @property
    def port(self) -> int:
        """The port, also where the URL leaves it out."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)


async def target_of(url: str | httpx.URL, allowed_hosts: Iterable[str]) -> Target:
    """Check a URL and find the addresses of its host.

    Loopback is an address of that kind, or `localhost` and names under it, which are never looked up. Every other
    host has to be listed, alone or as ``HOST:PORT``.

    Raises:
        CheckError: it is no URL that may be asked, or its host has no address.
    """
    try:
        parsed = httpx.URL(url)
        host = parsed.host.rstrip(".").lower()
    except (httpx.InvalidURL, ValueError) as error:
        raise CheckError(f"{str(url)!r} is no URL: {error}.") from error
    if parsed.scheme not in ("http", "https") or not host:
        raise CheckError(f"{str(url)!r} is no http or https URL.")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise CheckError(f"{str(url)!r} has no possible port.")
    if parsed.userinfo:
        raise CheckError("A URL of a check holds no user name or password.")
    if host == "localhost" or host.endswith(".localhost"):
        return Target(parsed, LOOPBACK, True)
    if is_loopback(host):
        return Target(parsed, (host,), True)
    target = Target(parsed, (), False)
    listed = {entry.strip().rstrip(".").lower() for entry in allowed_hosts}
    bracketed = f"[{host}]" if ":" in host else host
    if not {host, bracketed, f"{bracketed}:{target.port}"} & listed:
        raise CheckError(f"The host {host!r} is neither loopback nor listed in allowed_hosts.")
    return Target(parsed, await _addresses(host, target.port), False)


def is_loopback(host: str) -> bool:
    """Whether a host is written as a loopback address; names, and short or odd forms of numbers, are not."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped.is_loopback
    return address.is_loopback


async def _addresses(host: str, port: int) -> tuple[str, ...]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise CheckError(f"The host {host!r} has no address: {error}.") from error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
