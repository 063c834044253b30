"""Words that a shell may complete: ids and codes of the running server. Silence is always better than an error."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar

from butler.types import Json

T = TypeVar("T")
MOST_WORDS, MOST_CHARACTERS = 50, 60
_WORD = re.compile(r"[A-Za-z0-9_.@-]+")
_UNPLAIN = re.compile(r"[^\w .,=/-]+")
SECONDS = 2.0
"""For each of connecting and answering; a person waits with a finger on the Tab key."""


def thread_ids(incomplete: str) -> list[tuple[str, str]]:
    """Threads with their titles, the newest first."""
    found = [(one["thread_id"], one.get("title")) for one in _items("/threads", limit=MOST_WORDS)]
    return _offered(incomplete, [*found, ("last", "the thread that changed last")])


def approval_codes(incomplete: str) -> list[tuple[str, str]]:
    """Codes that wait for a decision, with what would run."""
    items = _items("/approvals", limit=MOST_WORDS, status="pending")
    return _offered(incomplete, [(one["code"], one.get("title")) for one in items])


def grant_ids(incomplete: str) -> list[tuple[str, str]]:
    """Live grants with their tools."""
    return _offered(incomplete, [(one["grant_id"], one["tool"]) for one in _items("/grants")])


def maid_run_ids(incomplete: str) -> list[tuple[str, str]]:
    """Tasks of maids with what they are about."""
    items = _items("/maid-runs", limit=MOST_WORDS)
    return _offered(incomplete, [(one["maid_run_id"], one.get("instruction")) for one in items])


def maid_ids(incomplete: str) -> list[tuple[str, str]]:
    """Maids of the registry of this folder."""

    def find() -> list[tuple[str, str]]:
        from config.maids_file import read_maids_file
        from config.settings import load_settings

        registry, _ = read_maids_file(load_settings().config_dir / "maid_registry.yml")
        return _offered(incomplete, [(one.maid_id, one.label) for one in registry.maids])

    return _quietly(find)


def intents(incomplete: str) -> list[str]:
    """Intents of the routes of this folder."""

    def find() -> list[str]:
        from config.routes_file import read_routes_file
        from config.settings import load_settings

        routes, _ = read_routes_file(load_settings().config_dir / "intent_maid_routes.yml", None)
        found = dict.fromkeys(route.intent for route in routes)
        return [word for word, _ in _offered(incomplete, [(one, "") for one in found])]

    return _quietly(find)


def user_names(incomplete: str) -> list[str]:
    """Users, for admins."""
    return [name for name, _ in _offered(incomplete, [(one["name"], "") for one in _items("/users")])]


def _offered(incomplete: str, found: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    """Those that begin so. What models and people wrote goes through the shell's `eval`: only plain signs are left."""
    words = [(str(word), _UNPLAIN.sub(" ", str(about or ""))[:MOST_CHARACTERS].strip()) for word, about in found]
    return [(word, about) for word, about in words if word.startswith(incomplete) and _WORD.fullmatch(word)]


def _items(path: str, **params: str | int) -> list[Json]:
    def find() -> list[Json]:
        import httpx

        from service.cli.place import find_place

        place = find_place()
        answer = httpx.get(
            place.url + path, params=params, timeout=SECONDS, follow_redirects=False,
            headers={"Authorization": f"Bearer {place.token.get_secret_value()}"}, trust_env=not place.is_loopback,
        )  # fmt: skip
        items = answer.json()["items"] if answer.status_code == 200 else []
        return [one for one in items if isinstance(one, dict)]

    return _quietly(find)


def _quietly(find: Callable[[], list[T]]) -> list[T]:
    """Whatever goes wrong, there is just nothing to complete: a line being typed is no place for an error."""
    try:
        return find()
    except Exception as error:
        logging.getLogger("butler.completion").debug("nothing to complete", exc_info=error)
        return []
