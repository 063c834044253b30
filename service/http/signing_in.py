"""The page that asks for a token, also in place of a page that only somebody who is signed in may see."""

from __future__ import annotations

import html
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from butler.errors import ButlerError
from service.http.problems import of_error

WEB = Path(__file__).parent.parent / "web"
PAGES = frozenset({"/memory"})
"""Pages for browsers behind the door."""


def page(name: str, status: int = 200, **values: str) -> Response:
    """A page of the house with `{{name}}` places filled in, escaped."""
    text = (WEB / name).read_text("utf-8")
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", html.escape(value))
    return HTMLResponse(text, status)


def refused_at_the_door(error: ButlerError, scope: Scope) -> Response:
    """The answer to a request that the door does not let in: a problem, or for a browser at a page how to sign in."""
    wants_page = "text/html" in Headers(scope=scope).get("accept", "") and scope["method"] in ("GET", "HEAD")
    if error.code == "unauthorized" and scope["path"] in PAGES and wants_page:
        answer = page("login.html", 401, refused="")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    return of_error(error, scope["path"])
