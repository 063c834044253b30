"""`POST /chat`, `POST /threads/{id}/resume` and the routes of runs (http-api, *Chat*, *Streaming*, *Resume*)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from butler.errors import ButlerError
from butler.types import Json
from service.butler import ButlerService
from service.events import RunLog, to_json
from service.http.bodies import ChatBody, ExactJsonRoute, ResumeBody
from service.http.openapi import ANSWERED
from service.http.security import caller, face
from service.http.standing import Standing, farewell
from service.tickets import Ticket

SSE_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


def service_of(request: Request) -> ButlerService:
    """The service that this application serves."""
    service = request.app.state.service
    assert isinstance(service, ButlerService)
    return service


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(to_json(value), status, media_type="application/json")


def stream(request: Request, log: RunLog, position: int, thread_id: str) -> Response:
    """A run's events as server-sent events; a client that goes away cancels nothing."""
    person, showings, standing = caller(request), service_of(request).showings, Standing(request)

    async def noted() -> AsyncIterator[bytes]:
        told = b""
        async for chunk in log.follow(position):
            try:
                await standing.check(log.run_id)
            except ButlerError:
                yield farewell(thread_id, log.run_id, told)
                return
            showings.events(person, chunk, face(request))
            told = chunk if chunk.startswith(b"id:") else told
            yield chunk

    return EventStream(noted(), headers=SSE_HEADERS)


def outcome_response(request: Request, outcome: Json, status: int = 200) -> Response:
    """An Outcome as JSON; who reads it is shown its approvals."""
    return json_response(service_of(request).showings.outcome(caller(request), outcome, face(request)), status)


def wants_stream(request: Request) -> bool:
    """Whether the client asked for server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


async def answer(request: Request, ticket: Ticket, wait: bool) -> Response:
    """Stream a ticket, wait for its outcome, or say at once that it runs."""
    if wants_stream(request):
        return stream(request, ticket.log, ticket.position, ticket.thread_id)
    if ticket.settled is not None:
        return outcome_response(request, ticket.settled, 202 if ticket.settled["status"] == "queued" else 200)
    standing = Standing(request)
    outcome = await ticket.outcome() if wait else None
    if outcome is None:
        return json_response({"thread_id": ticket.thread_id, "run_id": ticket.run_id, "status": "running"}, 202)
    await standing.check(ticket.run_id)
    return outcome_response(request, outcome)


def chat_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.post("/chat", responses=ANSWERED)
    async def chat(request: Request, body: ChatBody) -> Response:
        """Say something to the butler."""
        try:
            ticket = await service_of(request).chat(caller(request), body.message, body.thread_id, body.if_parked)
        except ButlerError as error:
            if error.code == "parked":
                service_of(request).showings.outcome(caller(request), error.extras, face(request))
            raise
        return await answer(request, ticket, body.wait)

    @router.post("/threads/{thread_id}/resume", responses=ANSWERED)
    async def resume(request: Request, thread_id: str, body: ResumeBody) -> Response:
        """Decide pending actions of a thread; it goes on by itself."""
        service, person = service_of(request), caller(request)
        decided = await service.decisions.in_thread(thread_id, body.read(), person, face(request))
        ticket = Ticket(thread_id, decided.run_id, decided.log, decided.position)
        if decided.in_part:
            # More people have to approve: nothing goes on, so there is nothing to wait for.
            ticket = Ticket.of_outcome(await service.run_outcome(person, decided.run_id))
        return await answer(request, ticket, body.wait)

    @router.get("/runs/{run_id}")
    async def run(request: Request, run_id: str) -> Response:
        """The Outcome of a run as it stands."""
        return outcome_response(request, await service_of(request).run_outcome(caller(request), run_id))

    @router.get("/runs/{run_id}/events", response_class=EventStream)
    async def events(request: Request, run_id: str) -> Response:
        """Join a run: what was missed, then what comes."""
        service, seen = service_of(request), last_event_id(request)
        log = await service.run_log(caller(request), run_id)
        thread_id = (await service.run_outcome(caller(request), run_id))["thread_id"]
        return stream(request, log, log.index_after(seen), thread_id)

    @router.post("/runs/{run_id}/cancel", status_code=202)
    async def cancel(request: Request, run_id: str) -> Response:
        """End a run; its outcome follows as ``cancelled``."""
        await service_of(request).cancel(caller(request), run_id, face(request))
        return outcome_response(request, await service_of(request).run_outcome(caller(request), run_id), 202)

    return router


def last_event_id(request: Request) -> int:
    """The last event that a client has seen, 0 for none. Raises ButlerError ``invalid_request``."""
    text = request.headers.get("last-event-id", "").strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ButlerError("invalid_request", "Last-Event-ID must be the number of the last event that was seen.")
    return int(text)
