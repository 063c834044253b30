"""One listener on the loopback interface per attempt (D11)."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from butler.maids.provider import OnLimit, OnTrouble, ProviderAccess
from config.maid_types import Endpoint, Limits
from service.maidproxy.meter import Meter
from service.maidproxy.relay import Relay

CONNECT_SECONDS = 15.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _QuietProtocol(H11Protocol):
    """An answer that breaks off is passed on like that, and is told by us; the server need not say it again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.Logger("butler.maidproxy.http")  # belongs to no other, and has no handler
        self.logger.addHandler(logging.NullHandler())


class _Server(uvicorn.Server):
    """A server inside of another: the signals are not its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def provider_access(
    endpoint: Endpoint, key: str | None, limits: Limits, on_trouble: OnTrouble, on_limit: OnLimit | None = None
) -> AsyncIterator[ProviderAccess]:
    """Open the access of one attempt to its provider; see `ProviderAccessFactory`.

    The agent is given a key of its own, which is worth nothing elsewhere and nothing afterwards.
    """
    stand_in = f"sk-butler-{secrets.token_urlsafe(24)}"
    meter = Meter(limits, on_limit)
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    timeout = httpx.Timeout(limits.silence, connect=CONNECT_SECONDS)
    address = httpx.URL(root)
    client = httpx.AsyncClient(
        timeout=timeout,
        follow_redirects=False,
        trust_env=address.host not in LOOPBACK,  # never through a proxy of the network
        verify=address.scheme != "http",  # reading the certificates takes a while, and there are none to check
    )
    async with client:
        relay = Relay(root, key, stand_in, meter, client, on_trouble)
        config = uvicorn.Config(
            relay,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=_QuietProtocol,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = _Server(config)
            serving = asyncio.ensure_future(server.serve([listener]))
            started = asyncio.ensure_future(server.listening.wait())
            try:
                await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    serving.result()
                port = listener.getsockname()[1]
                yield ProviderAccess(f"http://127.0.0.1:{port}", stand_in, meter.spent)
            finally:
                started.cancel()
                server.should_exit = True
                await asyncio.wait({serving})
