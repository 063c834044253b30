"""Apprise URLs as written by a person: parted, checked, and never repeated in a fault, since they hold secrets (B7)."""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from types import ModuleType
from urllib.parse import unquote, urlsplit

from config.problems import did_you_mean

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://\S")
_BETWEEN = re.compile(r"\s+|,(?=\s|\Z|[A-Za-z][A-Za-z0-9+.-]*://)")
SHORTEST_SECRET = 4


def split_urls(text: str) -> list[str]:
    """Part a list of URLs at white space and commas; a comma inside a URL stays there."""
    return [part for part in (piece.strip(",") for piece in _BETWEEN.split(text)) if part]


def service_of(url: str) -> str:
    """The URL's scheme, which names the service and is no secret."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else "?"


def load_apprise() -> ModuleType:
    """Import Apprise, which nothing does before there is a URL; its log stays out of ours, for it may name a URL."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        # Its plugins, loaded with the first look at them, use modules that Python is going to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        apprise = importlib.import_module("apprise")
        apprise.manager_plugins.NotificationManager().schemas()
    return apprise


def url_fault(url: str) -> str | None:
    """Say what is wrong with an Apprise URL without repeating more of it than its scheme; None when it is fine."""
    if not _SCHEME.match(url):
        return "expected an Apprise URL such as 'ntfy://TOPIC'"
    apprise = load_apprise()
    service = service_of(url)
    known = apprise.manager_plugins.NotificationManager().schemas()
    if service not in known:
        return f"Apprise knows no service {service!r}{did_you_mean(service, known)}"
    if apprise.Apprise.instantiate(url) is None:
        return f"Apprise can't read this URL of the service {service!r}; its documentation shows the form"
    return None


def password_of(url: str) -> str:
    """The password in a URL; empty where there is none."""
    return unquote(urlsplit(url).password or "")


def secrets_of(url: str) -> set[str]:
    """Every part of a URL that may be a secret, to be masked in errors; the scheme and plain host names are none."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    name = host.partition(":")[0]
    pieces = {url, parts.path.strip("/"), parts.query}
    pieces |= {parts.username or "", parts.password or ""}
    pieces |= {*parts.path.split("/"), *re.split(r"[&=;]", parts.query)}
    if "." not in name and name != "localhost":
        pieces |= {host, *host.split(":")}  # Many services have their token where a host would be.
    pieces |= {unquote(piece) for piece in pieces}
    return {piece for piece in pieces if len(piece) >= SHORTEST_SECRET}
