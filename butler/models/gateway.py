"""The one way to the model: streams, waits, tries again, and fails in words a person understands (B2, B3)."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson
import structlog

from butler.errors import ModelFailed
from butler.models.config import ModelConfig
from butler.models.counts import ModelCounts
from butler.models.failures import Fault, TooSlow, silent
from butler.models.overflow import ContextOverflow
from butler.models.reading import BodyReader
from butler.models.reply import ReplyBuilder
from butler.telemetry import Value, span
from butler.types import ChatMessage, CutText, Json, ModelReply

if TYPE_CHECKING:
    from butler.models.chat import Endpoint

__all__ = ["ModelConfig", "ModelGateway"]

log = structlog.get_logger("butler.models")

TRIES = 3
SILENT_TRIES = 2
"""One more after silence: a local server often has the prompt read by then; after that it only piles up dead work."""
PURPOSE = "X-Butler-Purpose"
BACK_OFF_SECONDS = 0.25
MAX_RETRY_AFTER_SECONDS = 20.0
# After the finish reason only usage and the end mark are missing: not worth a long wait.
_FAREWELL_SECONDS = 2.0
# A connection that is read to its end can be used again.
_DRAIN_SECONDS = 0.05
_MESSAGE_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"})
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


@dataclass(frozen=True)
class _Request:
    """What is asked, whichever model gets it."""

    messages: Sequence[ChatMessage]
    tools: Sequence[Json]
    on_text: Callable[[str], None]
    stream: bool
    silence: float
    headers: Mapping[str, str]
    max_tokens: int | None = None
    on_notice: Callable[[str], None] | None = None
    schema: Json | None = None


@dataclass(frozen=True)
class _Dialect:
    """What this endpoint takes; learned from what it rejects."""

    usage_option: bool = True
    limit_key: str = "max_tokens"
    schemas: bool = True

    def without_rejected(self, fault: Fault, request: _Request) -> _Dialect:
        """Give the dialect without what the endpoint has just named as unknown."""
        if fault.status not in (400, 422):
            return self
        if request.stream and ("stream_options" in fault.said or "include_usage" in fault.said):
            return replace(self, usage_option=False)
        if request.max_tokens is not None and "max_completion_tokens" in fault.said:
            return replace(self, limit_key="max_completion_tokens")
        if request.schema is not None and fault.overflow is None:
            # Endpoints say this in many words; the prompt asks for the same form, so little is lost.
            return replace(self, schemas=False)
        return self


class ModelGateway:
    """Asks one OpenAI-compatible endpoint; belongs to one event loop."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self._endpoint: asyncio.Future[Endpoint] | None = None
        self._dialect = _Dialect()
        self.counts = ModelCounts()

    @property
    def endpoint(self) -> str:
        """The address that is asked."""
        return self.config.base_url

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Json],
        on_text: Callable[[str], None],
        on_notice: Callable[[str], None] | None = None,
    ) -> ModelReply:
        """Give the model's answer, and its text piece by piece to `on_text` as it arrives.

        `on_notice` is told when a long silence is not yet the end.

        Raises:
            ContextOverflow: the request is too long for the model; a shorter one may do.
            ModelFailed: with what the user is told, and the text that had already come.
        """
        return await self._ask(_Request(messages, tools, on_text, True, self.config.timeout, {}, None, on_notice))

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        timeout: float,  # noqa: ASYNC109
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Give the text of a hidden call, a `CutText` if the limit ended it; nothing of it is ever streamed.

        Args:
            purpose: ``compaction`` or ``title``, sent as the header ``X-Butler-Purpose``.
            timeout: seconds for everything, tries and waits included.
            schema: what the answer is held to by endpoints that can; others are asked without it from then on.

        Raises:
            ModelFailed: no text within `timeout`.
        """
        headers = {PURPOSE: purpose}
        request = _Request(messages, (), _ignore, False, timeout, headers, max_tokens, schema=schema)
        try:
            async with asyncio.timeout(timeout):
                reply = await self._ask(request)
        except TimeoutError:
            raise TooSlow(f"The model did not answer within {timeout:g} s ({purpose}).") from None
        text = _THOUGHTS.sub("", reply.text).strip()
        if not text:
            raise ModelFailed(f"The model gave no text ({purpose}).")
        return CutText(text) if reply.finish_reason == "length" else text

    async def probe(self, timeout: float = 2.0) -> str | None:  # noqa: ASYNC109
        """Give None when the endpoint answers ``GET /models``, else a sentence about what is wrong."""
        endpoint = await self._connected()
        try:
            async with asyncio.timeout(timeout):
                await endpoint.get_models()
        except TimeoutError:
            return f"The model endpoint did not answer within {timeout:g} s. Check BUTLER_BASE_URL."
        except Fault as fault:
            return fault.detail
        return None

    async def warm(self) -> None:
        """Load the client in a thread, so that the first turn finds it ready."""
        await self._connected()

    async def aclose(self) -> None:
        """Close all connections; the gateway is not usable after this."""
        if self._endpoint is not None:
            endpoint = await self._endpoint
            await endpoint.aclose()

    async def _connected(self) -> Endpoint:
        if self._endpoint is None:
            self._endpoint = asyncio.ensure_future(asyncio.to_thread(_connect, self.config))
        # One caller's cancellation must not take the client from the others.
        return await asyncio.shield(self._endpoint)

    async def _ask(self, request: _Request) -> ModelReply:
        """Ask, and count what came of it."""
        purpose = request.headers.get(PURPOSE, "chat")
        try:
            reply = await self._ask_models(request)
        except ModelFailed:
            self.counts.failed[purpose] += 1
            raise
        self.counts.answered[purpose] += 1
        self.counts.input_tokens[purpose] += reply.usage.input_tokens
        self.counts.output_tokens[purpose] += reply.usage.output_tokens
        return reply

    async def _ask_models(self, request: _Request) -> ModelReply:
        models = [self.config.model]
        if self.config.fallback_model and self.config.fallback_model != self.config.model:
            models.append(self.config.fallback_model)
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            model = models.pop(0)
            try:
                return await self._ask_watched(model, request)
            except Fault as fault:
                if fault.overflow is not None and not fault.begun:
                    raise ContextOverflow(fault.detail, fault.overflow) from None
                if fault.begun or not fault.fallback or not models:
                    waited = clock() - began
                    detail = silent(waited, begun=False).detail if fault.silent else fault.detail
                    raise ModelFailed(detail, partial=fault.partial) from None
                self.counts.fallbacks += 1
                log.warning("model_fallback", model=model, fallback=models[0], reason=fault.detail)

    async def _ask_watched(self, model: str, request: _Request) -> ModelReply:
        """Ask one model within a span of OpenTelemetry's GenAI conventions (B8)."""
        about: dict[str, Value] = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": model,
            "gen_ai.request.stream": request.stream, "butler.purpose": request.headers.get(PURPOSE, "chat"),
        }  # fmt: skip
        if request.max_tokens is not None:
            about["gen_ai.request.max_tokens"] = request.max_tokens
        with span(f"chat {model}", about, "client") as told:
            reply = await self._ask_model(model, request)
            told.note(
                {
                    "gen_ai.response.model": reply.model or model,
                    "gen_ai.response.finish_reasons": (reply.finish_reason or "stop",),
                    "gen_ai.usage.input_tokens": reply.usage.input_tokens,
                    "gen_ai.usage.output_tokens": reply.usage.output_tokens,
                }
            )
            return reply

    async def _ask_model(self, model: str, request: _Request) -> ModelReply:
        """Try one model up to `TRIES` times, `SILENT_TRIES` if it is silent, and never again after a first token."""
        tries = empty = silences = 0
        while True:
            try:
                return await self._try(model, request)
            except Fault as fault:
                tries += 1
                empty += fault.empty
                silences += fault.silent
                if fault.begun or not fault.retry or tries == TRIES or empty > 1 or silences == SILENT_TRIES:
                    raise
                if fault.silent and request.on_notice is not None:
                    request.on_notice(f"The model has been silent for {request.silence:g} s; asking it once more.")
                wait = _wait(tries, fault.retry_after)
                self.counts.retries += 1
                log.warning("model_retry", model=model, tries=tries, wait=round(wait, 2), reason=fault.detail)
            await asyncio.sleep(wait)

    async def _try(self, model: str, request: _Request) -> ModelReply:
        """Make one try; what the endpoint does not know of the request is left out and doesn't count."""
        endpoint = await self._connected()
        while True:
            dialect = self._dialect
            builder = ReplyBuilder(self.config, model)
            try:
                body = _body(endpoint.parameters, model, request, dialect)
                await _exchange(endpoint, body, model, request, builder)
                return builder.finish(request.messages, request.tools)
            except Fault as fault:
                fault.begun = builder.begun
                fault.partial = builder.text if builder.begun else ""
                known = dialect.without_rejected(fault, request)
                if known == dialect:
                    raise
                self._dialect = known


async def _exchange(endpoint: Endpoint, body: bytes, model: str, request: _Request, builder: ReplyBuilder) -> None:
    """Send one request and read its answer into the builder.

    The response is closed however this ends, so a cancelled turn stops the provider too.
    """
    clock = asyncio.get_running_loop().time
    reader = BodyReader(builder, request.on_text)
    try:
        async with asyncio.timeout(request.silence) as guard:
            response = await endpoint.post(body, model, request.headers)
            try:
                async with aclosing(endpoint.chunks(response)) as chunks:
                    async for chunk in chunks:
                        if reader.feed(chunk):
                            patience = _patience(reader, request.silence)
                            guard.reschedule(clock() + patience)
                        if builder.full:
                            break
            finally:
                await response.aclose()
    except TimeoutError:
        if not guard.expired():
            raise
        if not reader.complete:
            raise silent(request.silence, begun=builder.begun) from None
    except Fault:
        # The answer is whole although the connection broke after it.
        if not reader.complete:
            raise
    reader.end()


def _patience(reader: BodyReader, silence: float) -> float:
    if reader.done:
        return _DRAIN_SECONDS
    return min(silence, _FAREWELL_SECONDS) if reader.complete else silence


def _body(parameters: Json, model: str, request: _Request, dialect: _Dialect) -> bytes:
    payload: Json = {
        **parameters,
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "stream": request.stream,
    }
    if request.tools:
        payload["tools"] = list(request.tools)
    if request.stream and dialect.usage_option:
        payload["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None:
        payload[dialect.limit_key] = request.max_tokens
    if request.schema is not None and dialect.schemas:
        form = {"name": "answer", "schema": request.schema}
        payload["response_format"] = {"type": "json_schema", "json_schema": form}
    try:
        return orjson.dumps(payload)
    except TypeError:  # half a character, which UTF-8 cannot hold
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


def _message(message: ChatMessage) -> Json:
    """Give the message as strict endpoints take it: nothing but the keys of the format."""
    if type(message) is dict and message.keys() <= _MESSAGE_KEYS:
        return message
    return {key: value for key, value in message.items() if key in _MESSAGE_KEYS}


def _wait(tries: int, retry_after: float | None) -> float:
    """Give the seconds before the next try; a wish of the endpoint holds unless it is out of proportion."""
    wait = BACK_OFF_SECONDS * 2.0 ** (tries - 1) * random.uniform(0.5, 1.5)
    if retry_after is not None and retry_after <= MAX_RETRY_AFTER_SECONDS:
        return max(wait, retry_after)
    return wait


def _connect(config: ModelConfig) -> Endpoint:
    # Imported here because it takes a second, which neither the start nor the event loop should spend.
    import anyio

    from butler.models.chat import Endpoint

    anyio.run(anyio.sleep, 0)  # loads what the first request would otherwise load inside the event loop
    return Endpoint(config)


def _ignore(text: str) -> None:
    """Hidden calls show nothing."""
