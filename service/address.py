"""Where the running server is reached from this machine; written down for the shell while it runs."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

URL_FILE = "server.url"
TOKEN_FILE = "owner.token"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can be sent to, and what stands for them on this machine."""


def local_url(host: str, port: int) -> str:
    """The URL that reaches a server which listens on `host` and `port`."""
    reached = EVERYWHERE.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def write_url(data_dir: Path, url: str) -> None:
    """Say where the server is; readers see the old file or the new one, never half of one."""
    draft = data_dir / f"{URL_FILE}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(url + "\n")
    draft.replace(data_dir / URL_FILE)


def read_url(data_dir: Path) -> str | None:
    """What the server wrote; None where none has run, or it was stopped. After a kill the file is left behind."""
    try:
        return (data_dir / URL_FILE).read_text("utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def forget_url(data_dir: Path) -> None:
    """Take the file away when the server stops."""
    (data_dir / URL_FILE).unlink(missing_ok=True)


def is_loopback(host: str) -> bool:
    """Whether what is sent to a host stays on this machine whatever the network does."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine: only its own addresses can be listened on."""
    if is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        for family, kind, number, _, address in found:
            with socket.socket(family, kind, number) as probe:
                probe.bind(address)
    except (OSError, UnicodeError):
        return False
    return bool(found)
