"""The chat model of langchain-openai, with a door to the bytes of its answers (B2).

ChatOpenAI gives configuration, request parameters and the openai client: authorization, pooling, typed
errors. Its own reading makes a typed object and several callbacks of every token; here the body is
handed out as it comes. Importing this module costs a second, so `ModelGateway` does it in a thread once
a model is wanted.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import openai
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from butler.models.config import ModelConfig
from butler.models.failures import Fault, cut_off, from_status, unreachable
from butler.types import Json

CONNECT_SECONDS = 10.0
_KEEP_IDLE_SECONDS = 60.0
# Tells the openai client to hand out the response without reading it.
_RAW = {"X-Stainless-Raw-Response": "stream", "Content-Type": "application/json"}


class ButlerChat(ChatOpenAI):
    """ChatOpenAI whose answers can be read as raw bytes."""

    def parameters(self) -> Json:
        """Everything but messages and tools that goes with each request."""
        return dict(self._default_params)

    async def post(self, body: bytes, headers: Mapping[str, Any]) -> httpx2.Response:
        """Send one request for a completion and give the response with its body still to come."""
        client: openai.AsyncOpenAI = self.root_async_client
        return await client.post(
            "/chat/completions",
            cast_to=httpx2.Response,
            content=body,
            options={"headers": {**_RAW, **headers}},
        )

    async def get_models(self, headers: Mapping[str, Any]) -> httpx2.Response:
        """Ask the endpoint for its models."""
        client: openai.AsyncOpenAI = self.root_async_client
        return await client.get("/models", cast_to=httpx2.Response, options={"headers": dict(headers)})


class Endpoint:
    """One endpoint's client; every failure leaves it as a `Fault`."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        connect = min(CONNECT_SECONDS, config.timeout)
        # The gateway watches over silence; these bound only what it can't see.
        timeout = httpx2.Timeout(None, connect=connect, pool=connect)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_KEEP_IDLE_SECONDS)
        # A client of our own: the default one is shared by all instances and could not be closed.
        self._http = openai.DefaultAsyncHttpxClient(timeout=timeout, limits=limits)
        self._chat = ButlerChat(
            model=config.model,
            base_url=config.base_url,
            api_key=SecretStr(config.api_token or "none"),
            timeout=timeout,
            max_retries=0,
            http_async_client=self._http,
            http_socket_options=(),
        )
        self.parameters = self._chat.parameters()
        # Local endpoints take no token, and some refuse a made-up one.
        self._authorization: Json = {} if config.api_token else {"Authorization": openai.Omit()}

    async def post(self, body: bytes, model: str, headers: Mapping[str, str]) -> httpx2.Response:
        """Start a completion; the caller closes the response."""
        try:
            return await self._chat.post(body, {**headers, **self._authorization})
        except openai.APIError as error:
            raise self._fault(error, model) from None

    async def get_models(self) -> None:
        """Ask for the models, to see whether the endpoint answers."""
        try:
            await self._chat.get_models(self._authorization)
        except openai.APIError as error:
            raise self._fault(error, self.config.model) from None

    async def chunks(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """Give the body as it arrives."""
        packed = response.headers.get("content-encoding", "identity") != "identity"
        try:
            async for chunk in response.aiter_bytes() if packed else response.aiter_raw():
                yield chunk
        except httpx2.HTTPError:
            raise cut_off() from None

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _fault(self, error: openai.APIError, model: str) -> Fault:
        if isinstance(error, openai.APIStatusError):
            wait = _retry_after(error.response.headers)
            return from_status(error.status_code, error.body, self.config, model, wait)
        never_met = (httpx2.ConnectError, httpx2.TimeoutException)  # only connecting has a timeout here
        return unreachable(self.config) if isinstance(error.__cause__, never_met) else cut_off()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds the endpoint asks to wait: a number, or a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after", "")
        if given.replace(".", "", 1).isdecimal():
            return float(given)
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None
