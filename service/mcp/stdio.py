"""`butler mcp`: MCP over standard input and output, which hands each call to the running server's `/mcp`.

The server may start later or be started again: it is looked for with every call.
"""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import count
from typing import Any

import httpx
from mcp.server.stdio import stdio_server

from butler.errors import ButlerError, ConfigError
from butler.types import Json
from config.environment import Environment
from service.cli.place import Place, find_place
from service.mcp.answers import Answer, refused
from service.mcp.offer import OFFERS, RUN_PREFIX
from service.mcp.patience import CHAT_SECONDS, patiently
from service.mcp.protocol import Context, make_server

ANSWER_SECONDS = CHAT_SECONDS + 15.0
HEADERS = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
TOLD = ("BUTLER_URL", "BUTLER_TOKEN", "BUTLER_INSECURE")
DEFAULT_URL = "http://127.0.0.1:8710"
_numbers = count(1)


async def serve() -> None:
    """Serve until standard input ends, or SIGTERM or SIGINT comes."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The thread that reads standard input can't be woken; whatever was answered has been written by now.
        loop.add_signal_handler(number, os._exit, 0)
    server = make_server(_call, _read)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _call(context: Context, name: str, arguments: Json) -> Answer:
    if name not in {offer.name for offer in OFFERS}:
        raise LookupError(name)

    async def progress(spent: float, said: str) -> None:
        await context.session.report_progress(spent, None, said)

    try:
        asked = _ask("tools/call", {"name": name, "arguments": arguments})
        result = await patiently(asked, progress, ANSWER_SECONDS)
        if result is None:
            raise ButlerError("answer_lost", "Butler gave no answer in time; it may have been carried out or not.")
    except ButlerError as error:
        return refused(error)
    texts = [part.get("text", "") for part in result.get("content", ())[1:]]
    return Answer(result.get("structuredContent", {}), "\n\n".join(texts), is_error=bool(result.get("isError")))


async def _read(_: Context, run_id: str) -> Json:
    result = await _ask("resources/read", {"uri": RUN_PREFIX + run_id})
    found: Json = httpx.Response(200, text=result["contents"][0]["text"]).json()
    return found


async def _ask(method: str, params: Json) -> Json:
    """One request to `/mcp`; gives its result. Raises ButlerError: the server's, or one that says why none came."""
    try:
        place = where()
    except ConfigError as error:
        raise ButlerError("invalid_request", error.detail) from None
    body = {"jsonrpc": "2.0", "id": next(_numbers), "method": method, "params": params}
    token = {"Authorization": f"Bearer {place.token.get_secret_value()}"}
    # What goes to this machine goes through no proxy; a redirect could carry the token elsewhere.
    async with httpx.AsyncClient(
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=5.0), trust_env=not place.is_loopback, follow_redirects=False
    ) as client:
        try:
            response = await client.post(f"{place.url}/mcp", json=body, headers={**HEADERS, **token})
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
            raise ButlerError(
                "unreachable",
                f"No Butler answers at {place.url} (from {place.url_from}): {error}. Start it with `butler serve`, or "
                "say with BUTLER_URL where it is; then call again.",
            ) from None
        except httpx.TransportError as error:
            raise ButlerError(
                "answer_lost",
                f"The connection to {place.url} broke before the answer came ({type(error).__name__}). It may have "
                "been carried out or not: look with approvals_list or maid_run_status.",
            ) from None
    return _result(response, place)


def where() -> Place:
    """Which Butler, and as whom.

    With a token in the process environment, no file of the folder has a say: it is somebody's project, whose ``.env``
    could send the token elsewhere. Raises ButlerError and ConfigError as `find_place`.
    """
    told = {name: os.environ[name] for name in TOLD if os.environ.get(name)}
    if "BUTLER_TOKEN" not in told:
        return find_place()
    return find_place(Environment({"BUTLER_URL": DEFAULT_URL, **told}, "environment", {}))


def _result(response: httpx.Response, place: Place) -> Json:
    try:
        said: Any = response.json()
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("result"), dict):
        result: Json = said["result"]
        return result
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict):
        data = error.get("data")
        code = data.get("code") if isinstance(data, dict) else None
        raise ButlerError(str(code or "invalid_request"), str(error.get("message")))
    if isinstance(said, dict) and isinstance(said.get("code"), str):
        hint = f" The token came from {place.token_from}." if response.status_code == 401 else ""
        raise ButlerError(said["code"], str(said.get("detail")) + hint)
    raise ButlerError(
        "unreachable", f"What answers at {place.url} (from {place.url_from}) is no Butler: status "
        f"{response.status_code}. Check the address.",
    )  # fmt: skip
