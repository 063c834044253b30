"""The page /memory: read, change, forget, take back, export and erase what is remembered; it needs no script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from butler.errors import ButlerError
from butler.memory.remembered import MOST_CHARACTERS
from butler.people import Principal
from service.http.chat import service_of
from service.http.openapi import Responses, problems
from service.http.security import caller, is_own, presented_token
from service.http.signing_in import WEB
from service.memory import MemoryService

if TYPE_CHECKING:
    from jinja2 import Template

FORM = "application/x-www-form-urlencoded"
MOST_FORM_BYTES = 64 * 1024
FORMS = ("add", "edit", "forget", "undo", "erase")
FORM_SENT: Responses = {
    303: {"description": "Done; the page follows"},
    422: {"description": "The page, which says what is wrong", "content": {"text/html": {}}},
    **problems(404, 413),
}
SAID = {
    "added": "It is remembered.",
    "changed": "It is changed.",
    "forgotten": "It is forgotten; you find it below and can take it back.",
    "back": "It is remembered again.",
    "erased": "Everything is erased.",
}
# With no referrer at all a browser would send `Origin: null` with the forms, which is refused as foreign.
HEADERS = {"Referrer-Policy": "same-origin", "Cache-Control": "no-store"}


@cache
def _template() -> Template:
    # Imported here: the start of the server need not wait for it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    house = Environment(loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined)
    return house.get_template("memory.html")


def memory_page_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/memory", response_class=HTMLResponse)
    async def show(request: Request, query: str = "", said: str = "") -> Response:
        """The page."""
        return await _page(service_of(request).memory, caller(request), query=query[:500], said=SAID.get(said, ""))

    for what in FORMS:
        router.post(
            f"/memory/{what}",
            name=f"memory_{what}",
            status_code=303,
            response_class=RedirectResponse,
            responses=FORM_SENT,
        )(_carrying_out(what))
    return router


def _carrying_out(what: str) -> Callable[[Request], Awaitable[Response]]:
    async def change(request: Request) -> Response:
        """Carry out a form of the page and show the page again."""
        memory, person = service_of(request).memory, caller(request)
        refuse_unless_own_page(request)
        form: dict[str, str] = {}
        try:
            form = await _form(request)
            said = await _carry_out(memory, person, what, form)
        except ButlerError as error:
            if error.code != "invalid_request":
                raise
            return await _page(memory, person, status=422, fault=error.detail, draft=form.get("text", ""))
        return RedirectResponse(f"/memory?said={quote(said)}", 303, HEADERS)

    return change


async def _carry_out(memory: MemoryService, person: Principal, what: str, form: dict[str, str]) -> str:
    match what:
        case "add":
            await memory.add(person, form.get("text", ""), _importance(form), "web")
            return "added"
        case "edit":
            await memory.edit(person, form.get("memory_id", ""), form.get("text", ""), _importance(form))
            return "changed"
        case "forget":
            await memory.forget(person, form.get("memory_id", ""))
            return "forgotten"
        case "undo":
            await memory.undo(person, form.get("memory_id", ""))
            return "back"
        case "erase":
            if form.get("confirm") != "yes":
                raise ButlerError("invalid_request", "Tick the box before you erase everything.")
            await memory.erase(person, "web")
            return "erased"
        case _:
            raise ButlerError("not_found", "There is no such form.")


async def _page(
    memory: MemoryService,
    person: Principal,
    *,
    status: int = 200,
    query: str = "",
    said: str = "",
    fault: str = "",
    draft: str = "",
) -> Response:
    found = await memory.listed(person, query, forgotten=True)
    html = _template().render(
        name=person.name, query=query, said=said, fault=fault, draft=draft, most=MOST_CHARACTERS,
        live=[one for one in found if one.forgotten_at is None],
        gone=[one for one in found if one.forgotten_at is not None],
    )  # fmt: skip
    return HTMLResponse(html, status, HEADERS)


def refuse_unless_own_page(request: Request) -> None:
    """With the browser's cookie only a form of Butler's own page changes anything. Raises ButlerError ``forbidden``."""
    if not presented_token(request.headers)[1]:
        return
    if not is_own(request.headers.get("origin", ""), request.headers):
        raise ButlerError("forbidden", "This form comes from another site's page; nothing was changed.")


async def _form(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
        raise ButlerError("invalid_request", f"This address takes the page's forms ({FORM}).")
    body = await request.body()
    try:
        return dict(parse_qsl(body[:MOST_FORM_BYTES].decode(), keep_blank_values=True, max_num_fields=10))
    except ValueError:
        raise ButlerError("invalid_request", "The form can't be read; open the page again.") from None


def _importance(form: dict[str, str]) -> int:
    text = form.get("importance", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= 10):
        raise ButlerError("invalid_request", "The importance is a number from 1 to 10.")
    return int(text)
