"""The part of `butler doctor` that talks to the model's endpoint; no tokens are spent (E5)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2

from config.problems import nearest
from config.settings import Settings
from service.doctor import Finding

NAME = "model"
WAIT_SECONDS = 10.0
START = "start it, or correct BUTLER_BASE_URL"
MOST_NAMED = 10


def model(settings: Settings) -> Finding:
    """Whether the endpoint answers, takes the key and knows the models."""
    if settings.base_url is None or settings.model is None:
        return _not_configured(settings)
    host = urlsplit(settings.base_url).netloc.rpartition("@")[2]
    try:
        answer = _models_of(settings.base_url, settings)
    except httpx2.HTTPError as error:
        return Finding(NAME, "bad", f"{host} does not answer: {type(error).__name__}: {error}", START)
    if answer.status_code in (401, 403):
        return Finding(NAME, "bad", f"{host} refuses the key (HTTP {answer.status_code}); see BUTLER_API_TOKEN")
    if answer.status_code in (404, 405):
        return _no_list(host, answer.status_code, settings.base_url, settings)
    if answer.status_code != 200:
        return Finding(NAME, "bad", f"{host} answers HTTP {answer.status_code}; see BUTLER_BASE_URL")
    known = _listed(answer)
    wanted = {"BUTLER_MODEL": settings.model, "BUTLER_FALLBACK_MODEL": settings.fallback_model}
    missing = {variable: name for variable, name in wanted.items() if name is not None and name not in known}
    if not missing:
        return Finding(NAME, "good", f"{host} answers and lists {settings.model!r}")
    said = " and ".join(f"{name!r} ({variable})" for variable, name in missing.items())
    return Finding(NAME, "note", f"{host} answers, but does not list {said}; {_named(known, *missing.values())}")


def _not_configured(settings: Settings) -> Finding:
    missing = " and ".join(settings.model_missing)
    given = {
        "BUTLER_BASE_URL": settings.base_url,
        "BUTLER_MODEL": settings.model,
        "BUTLER_API_TOKEN": settings.api_token,
        "BUTLER_FALLBACK_MODEL": settings.fallback_model,
    }
    present = " and ".join(variable for variable, value in given.items() if value is not None)
    if present:
        return Finding(NAME, "bad", f"half configured: {present} set, but not {missing}, so no model is asked")
    return Finding(NAME, "note", f"none configured: set {missing}; commands work without one")


def _models_of(base_url: str, settings: Settings) -> httpx2.Response:
    headers = {}
    if settings.api_token is not None:
        headers["Authorization"] = f"Bearer {settings.api_token.get_secret_value()}"
    return httpx2.get(f"{base_url}/models", headers=headers, timeout=min(settings.model_timeout, WAIT_SECONDS))


def _no_list(host: str, status: int, base_url: str, settings: Settings) -> Finding:
    """Some endpoints list no models; more often the path is not the right one."""
    for candidate in _other_paths(base_url):
        try:
            found = _models_of(candidate, settings).status_code == 200
        except httpx2.HTTPError:
            continue
        if found:
            shown = f"{urlsplit(candidate).scheme}://{host}{urlsplit(candidate).path}"
            return Finding(NAME, "bad", f"nothing is at the path of BUTLER_BASE_URL; {shown} answers")
    detail = f"{host} answers, but lists no models (HTTP {status}), so the model's name was not checked"
    if not urlsplit(base_url).path.endswith("/v1"):
        detail += "; BUTLER_BASE_URL usually ends in /v1"
    return Finding(NAME, "note", detail)


def _other_paths(base_url: str) -> Iterator[str]:
    parts = urlsplit(base_url)
    origin = f"{parts.scheme}://{parts.netloc}"
    seen = {base_url}
    for candidate in (f"{base_url}/v1", f"{origin}/v1"):
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def _named(known: list[str], *wanted: str) -> str:
    """What the endpoint does list, the most similar names first."""
    if not known:
        return "it lists none"
    near = [name for name in (nearest(one, known) for one in wanted) if name is not None]
    names = list(dict.fromkeys([*near, *known]))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"it lists {', '.join(map(repr, names[:MOST_NAMED]))}{more}"


def _listed(answer: httpx2.Response) -> list[str]:
    try:
        return [str(item["id"]) for item in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return []
