"""Words that a shell may complete: ids and codes of the running server. Silence is always better than an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from butler.types import Json

T = TypeVar("T")
MOST_WORDS = 50
SECONDS = 1.0
"""For each of connecting and answering; a person waits with a finger on the Tab key."""


def thread_ids(incomplete: str) -> list[tuple[str, str]]:
    """Threads with their titles, the newest first."""
    from service.cli.plain import visible

    items = [(str(one["thread_id"]), visible(str(one.get("title") or ""))) for one in _items("/threads")]
    return [one for one in [*items, ("last", "the thread that changed last")] if one[0].startswith(incomplete)]


def approval_codes(incomplete: str) -> list[tuple[str, str]]:
    """Codes that wait for a decision, with what would run."""
    from service.cli.plain import visible

    found = [(str(one["code"]), visible(str(one.get("title") or ""))) for one in _items("/approvals")]
    return [one for one in found if one[0].startswith(incomplete.upper())]


def grant_ids(incomplete: str) -> list[tuple[str, str]]:
    """Live grants with their tools."""
    from service.cli.plain import visible

    found = [(str(one["grant_id"]), visible(str(one["tool"]))) for one in _items("/grants", limit=False)]
    return [one for one in found if one[0].startswith(incomplete)]


def maid_run_ids(incomplete: str) -> list[tuple[str, str]]:
    """Tasks of maids with their states."""
    from service.cli.plain import visible

    found = [(str(one["maid_run_id"]), visible(f"{one['status']} {one['instruction'][:40]}"))
             for one in _items("/maid-runs")]  # fmt: skip
    return [one for one in found if one[0].startswith(incomplete)]


def maid_ids(incomplete: str) -> list[tuple[str, str]]:
    """Maids of the registry of this folder."""

    def find() -> list[tuple[str, str]]:
        from config.maids_file import read_maids_file
        from config.settings import load_settings

        registry, _ = read_maids_file(load_settings().config_dir / "maid_registry.yml")
        return [(one.maid_id, one.label or "") for one in registry.maids if one.maid_id.startswith(incomplete)]

    return _quietly(find)


def intents(incomplete: str) -> list[str]:
    """Intents of the routes of this folder."""

    def find() -> list[str]:
        from config.routes_file import read_routes_file
        from config.settings import load_settings

        routes, _ = read_routes_file(load_settings().config_dir / "intent_maid_routes.yml", None)
        return [one for one in dict.fromkeys(route.intent for route in routes) if one.startswith(incomplete)]

    return _quietly(find)


def user_names(incomplete: str) -> list[str]:
    """Users, for admins."""
    return [name for name in (str(one["name"]) for one in _items("/users", limit=False)) if name.startswith(incomplete)]


def _items(path: str, *, limit: bool = True) -> list[Json]:
    def find() -> list[Json]:
        import httpx

        from service.cli.place import find_place

        place = find_place()
        answer = httpx.get(
            place.url + path, params={"limit": MOST_WORDS} if limit else {}, timeout=SECONDS, follow_redirects=False,
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
