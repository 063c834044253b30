"""The browser's way in: the login link and the start page (http-api, *Who is calling*)."""

from __future__ import annotations

from typing import Literal, TypedDict

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from butler.errors import ButlerError
from service.http.openapi import PROBLEM_TYPE, Responses
from service.http.security import COOKIE, address_of, presented_token
from service.http.signing_in import WEB, page

TYPES = {".css": "text/css", ".js": "text/javascript"}
OTHER_TYPES: Responses = {200: {"content": {"text/javascript": {}}}}
LOGGED_IN: Responses = {
    303: {"description": "The token is in the cookie now; the page follows"},
    401: {"description": "The form that asks for a token", "content": {"text/html": {}}},
    403: {"description": "An agent has no page", "content": {PROBLEM_TYPE: {}}},
    429: {"description": "Too many wrong tokens from this address", "content": {PROBLEM_TYPE: {}}},
}
LOGGED_OUT: Responses = {303: {"description": "The form that asks for a token follows"}}


class Asset(Response):
    """A style; a script names its own type."""

    media_type = "text/css"


def page_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()
    assets = {path.name: path for path in WEB.iterdir() if path.suffix in TYPES}

    @router.get("/", response_class=HTMLResponse, responses=LOGGED_IN)
    async def start(request: Request, token: str | None = None) -> Response:
        """The page; with a token in the link, set the cookie and drop the token from the address."""
        doorkeeper = request.app.state.doorkeeper
        if token is not None:
            return await _login(request, token)
        presented = presented_token(request.headers)[0]
        try:
            person = await doorkeeper.who(presented)
        except ButlerError:
            if presented:
                request.app.state.failures.take(address_of(request.scope))
            return page("login.html", 401, refused="")
        if person.role == "agent":
            raise ButlerError("forbidden", "An agent speaks on the agent socket only; the page is for people.")
        return page("index.html", user=person.name)

    @router.get("/login", response_class=HTMLResponse)
    async def login() -> Response:
        """The form that takes a token."""
        return page("login.html", refused="")

    @router.post("/logout", status_code=204, responses=LOGGED_OUT)
    async def logout(request: Request) -> Response:
        """Drop the browser's cookie; the token itself stays good until it is revoked."""
        is_page = "text/html" in request.headers.get("accept", "")
        response = RedirectResponse("/login", 303) if is_page else Response(status_code=204)
        response.delete_cookie(COOKIE, **cookie_rules(request.app.state.behind_https))
        return response

    @router.get("/web/{name}", response_class=Asset, responses=OTHER_TYPES)
    async def asset(name: str) -> Response:
        """A script or style of the page."""
        path = assets.get(name)
        if path is None:
            raise ButlerError("not_found", "There is no such file.")
        return Response(path.read_bytes(), media_type=TYPES[path.suffix])

    return router


class CookieRules(TypedDict):
    """Where the cookie goes, and who can read it."""

    httponly: bool
    samesite: Literal["strict"]
    path: str
    secure: bool


def cookie_rules(behind_https: bool) -> CookieRules:
    """No script reads it, no other site sends it, and over https no plain request carries it."""
    return {"httponly": True, "samesite": "strict", "path": "/", "secure": behind_https}


async def _login(request: Request, token: str) -> Response:
    state = request.app.state
    try:
        await state.doorkeeper.who(token)
    except ButlerError:
        state.failures.take(address_of(request.scope))
        return page("login.html", 401, refused="refused")
    response = RedirectResponse("/", 303)
    response.set_cookie(COOKIE, token, max_age=30 * 24 * 3600, **cookie_rules(state.behind_https))
    return response
