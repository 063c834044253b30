"""`GET /metrics` for Prometheus: with an admin's token, or without any from this very machine (http-api, *health*)."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from butler.errors import ButlerError
from butler.storage.database import TookTooLong
from butler.storage.tally import Tally, tally
from service.http.access import admin_only
from service.http.chat import service_of
from service.http.openapi import problems
from service.http.security import address_of, presented_token
from service.metrics.collect import House
from service.metrics.counts import Turns

COUNT_SECONDS = 2.0
PASSED_ON = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
PASSED_ON_ALL = "x-forwarded-"
"""Headers of proxies: behind one, every caller seems to be on this machine."""
REFUSAL = "The metrics are for admins, and for programs on the server's own machine that send no token."


def metrics_routes(turns: Turns) -> APIRouter:
    """The routes of this file."""
    router = APIRouter()

    @router.get("/metrics", response_class=PlainTextResponse, responses=problems(401, 403, 429))
    async def metrics(request: Request) -> Response:
        """What Butler counts, in Prometheus' text form."""
        await _let_in(request)
        service = service_of(request)
        model, compactor = service.faculties.model, service.faculties.compactor
        found: Tally | None = None
        try:
            found = await service.database.read_within(COUNT_SECONDS, tally)
        except TookTooLong:
            found = None  # What is counted in memory is still worth telling.
        house = House(
            turns, model.counts if model else None, compactor.counts if compactor else None,
            service.database.write_counts(), found,
        )  # fmt: skip
        text, media_type = house.text()
        return Response(text, media_type=media_type)

    return router


async def _let_in(request: Request) -> None:
    """Raises ButlerError ``unauthorized`` or ``forbidden``. Who sends a token is judged by it, wherever they are."""
    token, _ = presented_token(request.headers)
    if not token:
        if _is_local(request):
            return
        raise ButlerError("unauthorized", REFUSAL)
    try:
        request.state.person = await request.app.state.doorkeeper.who(token)
    except ButlerError:
        request.app.state.failures.take(address_of(request.scope))
        raise
    await admin_only(request, REFUSAL)


def _is_local(request: Request) -> bool:
    """Whether the request comes from this machine and was meant for it, and no proxy says that it passed it on."""
    if any(name in PASSED_ON or name.startswith(PASSED_ON_ALL) for name in request.headers):
        return False
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return False
    return _is_loopback(address_of(request.scope)) and (host == "localhost" or _is_loopback(host))


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False
