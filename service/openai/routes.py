"""`GET /v1/models`, `GET /v1/models/{model_id}` and `POST /v1/chat/completions` (http-api, *OpenAI-compatible*)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from butler.errors import ButlerError
from butler.ids import new_id
from butler.types import Json
from service.http.bodies import ExactJsonRoute
from service.http.chat import SSE_HEADERS, EventStream, json_response, service_of
from service.http.openapi import STREAMED
from service.http.security import caller
from service.http.standing import Standing
from service.openai.chats import Chats, Turn, note_answer
from service.openai.errors import error_body
from service.openai.reading import CompletionBody, Wish, read_wish
from service.openai.shapes import DONE, MODEL, NO_USAGE, Shape, event, model, models, usage_of
from service.openai.sidecalls import answer_aside, is_side_call
from service.openai.telling import Ended, Teller

log = structlog.get_logger("butler.openai")

KEEP_ALIVE = b": keep-alive\n\n"


def openai_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute, prefix="/v1")
    began = int(time.time())
    chats = Chats()

    @router.get("/models")
    async def list_models() -> Response:
        """The butler, as the one model there is."""
        return json_response(models(began))

    @router.get("/models/{model_id}")
    async def get_model(model_id: str) -> Response:
        """The butler by its name; there is no other model."""
        if model_id != MODEL:
            raise ButlerError("not_found", f"There is one model here: {MODEL}.", param="model")
        return json_response(model(began))

    @router.post("/chat/completions", responses=STREAMED)
    async def complete(request: Request, body: CompletionBody) -> Response:
        """The last user message is a turn; the answer is the butler's."""
        wish = read_wish(body, request.headers)
        if is_side_call(body, request.headers):
            return await _aside(request, wish)
        turn = await chats.take(service_of(request), caller(request), wish)
        shape = Shape(f"chatcmpl-{turn.run_id}", int(time.time()), body.model or MODEL)
        headers = {"X-Thread-Id": turn.thread_id, "X-Run-Id": turn.run_id}
        if wish.stream:
            return EventStream(_stream(request, wish, turn, shape), headers={**SSE_HEADERS, **headers})
        return await _whole(request, wish, turn, shape, headers)

    return router


async def _whole(request: Request, wish: Wish, turn: Turn, shape: Shape, headers: dict[str, str]) -> Response:
    """Wait for the turn's end or park; nobody who goes away meanwhile has been answered."""
    parts: list[str] = []
    async for piece in _told(request, turn):
        if isinstance(piece, Ended):
            text = service_of(request).faculties.redactor.text("".join(parts))
            if not await request.is_disconnected():
                _tell_chats(request, wish, turn, piece)
            told = shape.completion(text, piece.finish, usage_of(piece.usage), _butler(turn, piece))
            response = json_response(told)
            response.headers.update(headers)
            return response
        parts.append(piece or "")
    raise AssertionError("a turn is told without its end")


async def _stream(request: Request, wish: Wish, turn: Turn, shape: Shape) -> AsyncIterator[bytes]:
    """The turn as chunks. A client that goes away ends this and nothing else."""
    yield shape.chunk({"role": "assistant", "content": ""})
    try:
        async for piece in _told(request, turn):
            if isinstance(piece, Ended):
                yield shape.chunk({}, piece.finish, _butler(turn, piece))
                # All of the text is sent. Noted before the end mark, after which the client may ask again.
                _tell_chats(request, wish, turn, piece)
                if wish.usage_in_stream:
                    yield shape.usage_chunk(usage_of(piece.usage))
                yield DONE
            elif piece is None:
                yield KEEP_ALIVE
            else:
                yield shape.chunk({"content": piece})
    except ButlerError as error:
        yield event(error_body(error.status, error.code, error.detail))
        yield DONE
    except Exception as error:
        # The answer has begun, so there is no status to send any more.
        incident = new_id()
        log.error("stream_failed", run_id=turn.run_id, incident=incident, exc_info=error)
        yield event(error_body(500, "internal", f"Something went wrong inside Butler (incident {incident})."))
        yield DONE


async def _told(request: Request, turn: Turn) -> AsyncIterator[str | Ended | None]:
    """The turn, as long as its reader may hear of it."""
    teller, standing = Teller(service_of(request), caller(request)), Standing(request)
    async for piece in teller.tell(turn.run_id, turn.log, turn.position, queued=turn.queued):
        await standing.check(turn.run_id)
        yield piece


def _butler(turn: Turn, ended: Ended) -> Json:
    """What Butler's own clients read beside the text."""
    return {
        "thread_id": turn.thread_id, "run_id": turn.run_id, "status": ended.status, "error": ended.error,
        "approvals": list(ended.approvals),
    }  # fmt: skip


def _tell_chats(request: Request, wish: Wish, turn: Turn, ended: Ended) -> None:
    over = ended.status in ("done", "failed", "cancelled")
    note_answer(service_of(request).database, caller(request), wish, turn.run_id, over=over)


async def _aside(request: Request, wish: Wish) -> Response:
    """Answer a side call; nothing of it is kept."""
    text = await answer_aside(service_of(request).faculties, wish.body)
    shape = Shape(f"chatcmpl-{new_id()}", int(time.time()), wish.body.model or MODEL)
    if not wish.stream:
        return json_response(shape.completion(text, "stop", NO_USAGE))

    async def pieces() -> AsyncIterator[bytes]:
        yield shape.chunk({"role": "assistant", "content": text})
        yield shape.chunk({}, "stop")
        if wish.usage_in_stream:
            yield shape.usage_chunk(NO_USAGE)
        yield DONE

    return EventStream(pieces(), headers=SSE_HEADERS)
