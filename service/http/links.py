"""The page behind a signed link: it shows one action to one person and asks for the decision with a button (B7).

Opening it decides nothing, so mail scanners and previews may. The decision goes the way of every other one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from butler.approvals.actions import Action
from butler.approvals.decide import Decision
from butler.approvals.show import approval
from butler.errors import ButlerError
from butler.people import Principal
from butler.types import Json
from service.butler import ButlerService
from service.http.chat import service_of
from service.http.openapi import PROBLEM_TYPE, Responses
from service.http.signing_in import WEB
from service.notify.links import Link, spend
from service.notify.messages import moment, seen
from service.notify.opened import UNKNOWN, View, recorded, view_of

MOST_REASON_CHARACTERS = 2000
MOST_FORM_BYTES = 32 * 1024
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}
PAGES: Responses = {
    **{
        status: {"description": "A page that says why", "content": {"text/html": {}}}
        for status in (403, 404, 409, 410, 422)
    },
    429: {"description": "Too many requests from this address", "content": {PROBLEM_TYPE: {}}},
}


def link_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()
    pages = Pages()

    @router.get("/decide/{token}", response_class=HTMLResponse, responses=PAGES)
    async def show(request: Request, token: str) -> Response:
        """The action and the form; only that it was shown is written down."""
        service = service_of(request)
        view = await look(service, token)
        if view.is_open and view.person is not None and view.action is not None:
            service.showings.saw(view.person, [view.action.action_id], "link")
        return pages.view(service, view)

    @router.head("/decide/{token}", include_in_schema=False)
    async def probe(request: Request, token: str) -> Response:
        """What `show` would answer, without the page; nobody has seen anything."""
        view = await look(service_of(request), token)
        return Response(status_code=view.status, headers=PRIVATE, media_type="text/html")

    @router.post("/decide/{token}", response_class=HTMLResponse, responses=PAGES)
    async def decide(request: Request, token: str) -> Response:
        """Decide as the person of the link, once."""
        service = service_of(request)
        view = await look(service, token)
        if not view.is_open or view.link is None or view.person is None or view.action is None:
            return pages.view(service, view)
        action_id, person = view.action.action_id, view.person
        decision = read_form(await request.body(), view.link.fingerprint)
        if isinstance(decision, str):
            return pages.plain(422, "Nothing was decided", decision)
        try:
            done = await service.decisions.by_link(action_id, decision, person, spend(view.link.link_id))
        except ButlerError as error:
            view = await look(service, token)
            return (
                pages.plain(error.status, "Nothing was decided", error.detail)
                if view.is_open
                else pages.view(service, view)
            )
        return pages.done(service, done.actions[0], decision, person)

    return router


def read_form(body: bytes, fingerprint: str) -> Decision | str:
    """The decision of the form, bound to what the link was made for; or what is wrong with the form."""
    try:
        if len(body) > MOST_FORM_BYTES:
            raise ValueError
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=2
        )
    except ValueError:
        return "The form can't be read. Go back and choose again."
    kinds: dict[str, Literal["approve", "reject"]] = {"approve": "approve", "reject": "reject"}
    chosen = fields.get("decision", [])
    kind = kinds.get(chosen[0]) if len(chosen) == 1 else None
    if kind is None or set(fields) - {"decision", "reason"}:
        return "Choose approve or reject."
    reason = fields.get("reason", [""])[0].replace("\r\n", "\n").strip()
    if len(reason) > MOST_REASON_CHARACTERS:
        return f"The reason is over {MOST_REASON_CHARACTERS} characters; shorten it."
    return Decision(kind, reason=reason or None, fingerprint=fingerprint)


async def look(service: ButlerService, token: str) -> View:
    """What the link leads to now."""
    link_id = service.links.read(token)
    if link_id is None:
        return UNKNOWN
    return await service.database.read(partial(view_of, link_id=link_id, redactor=service.faculties.redactor))


class Pages:
    """The template, read once; every value that goes into it is escaped."""

    def __init__(self) -> None:
        environment = Environment(loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined)
        environment.globals.update(moment=moment, seen=seen, exact=exact)
        self._template = environment.get_template("decide.html")

    def view(self, service: ButlerService, view: View) -> Response:
        """A view as a page; the action itself only while its question is open."""
        shown = self._approval(service, view.action) if view.is_open and view.action else None
        return self._page(view.status, view.title, view.lines, shown, link=view.link)

    def plain(self, status: int, title: str, line: str) -> Response:
        """A page with one sentence."""
        return self._page(status, title, (line,), None)

    def done(self, service: ButlerService, action: Action, decision: Decision, person: Principal) -> Response:
        """What the decision came to."""
        if action.status == "pending":
            return self._page(200, "Your approval is recorded", recorded(action, service.faculties.redactor), None)
        title, then = ("Approved", "It runs now.") if decision.kind == "approve" else ("Rejected", "It does not run.")
        shown = self._approval(service, action)
        lines = (f"Recorded: {person.name}, by way of this link. {then}",)
        return self._page(200, title, lines, shown, decided=True)

    def _approval(self, service: ButlerService, action: Action) -> Json:
        return approval(action, service.faculties.tools, service.faculties.redactor)

    def _page(
        self,
        status: int,
        title: str,
        lines: tuple[str, ...],
        shown: Mapping[str, Any] | None,
        *,
        link: Link | None = None,
        decided: bool = False,
    ) -> Response:
        again = shown is not None and shown["execution"] == "unknown"
        text = self._template.render(
            title=title, lines=lines, shown=shown, expires=_expiry(shown, link), decided=decided,
            approve="Approve: run it again" if again else "Approve", reject="Reject: give up" if again else "Reject",
        )  # fmt: skip
        return HTMLResponse(text, status, PRIVATE)


def exact(value: object) -> str:
    """A value as indented JSON, with escapes for what can't be seen."""
    return seen(json.dumps(value, indent=2, ensure_ascii=False), keep="\n")


def _expiry(shown: Mapping[str, Any] | None, link: Link | None) -> str:
    if shown is not None and shown["expires_at"] is not None:
        return moment(shown["expires_at"])
    return f"never; this link does, {moment(link.expires_at)}" if link and link.expires_at else "never"
