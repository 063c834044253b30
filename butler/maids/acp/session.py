"""Opening a session with an agent: new, or one that the agent still has, and its mode (D4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.core import ClientSideConnection
from pydantic import ValidationError

from butler.maids.acp.offer import Offer

AUTHENTICATION_REQUIRED = -32000
CLIENT = schema.Implementation(name="butler", version="0")
REFUSING = frozenset({401, 402, 403, 429})


class SessionRefused(Exception):
    """The agent has no session for us: no such mode; the text says why."""


@dataclass(frozen=True)
class Session:
    """An open session; where it is not the `loaded` one that was wanted, `detail` says why."""

    session_id: str
    can_load: bool
    loaded: bool = False
    detail: str = ""


async def open_session(
    connection: ClientSideConnection,
    offer: Offer,
    tree: Path,
    mode: str | None,
    load: str | None = None,
    patience: float = 30.0,
) -> Session:
    """Shake hands, open a session in `tree`, set its mode.

    Args:
        load: the id of an earlier session that is gone on with; a new one where the agent can't. What the agent tells
            before this returns is history.
        patience: seconds that loading may take.

    Raises:
        SessionRefused: see there.
        RequestError: the agent answers with an error.
        ConnectionError: the agent is gone.
    """
    # Some agents echo whatever version they are asked for, so the answer's says nothing.
    hello = await connection.initialize(PROTOCOL_VERSION, client_capabilities=offer.capabilities(), client_info=CLIENT)
    can_load = bool(hello.agent_capabilities and hello.agent_capabilities.load_session)
    opened: schema.NewSessionResponse | schema.LoadSessionResponse | None = None
    session_id, detail = load or "", ""
    if load is not None:
        try:
            opened = await _loaded(connection, tree, load, can_load, patience)
        except _NotLoaded as error:
            detail = str(error)
    is_loaded = opened is not None
    if opened is None:
        opened = await connection.new_session(cwd=str(tree), mcp_servers=[])
        session_id = opened.session_id
    if mode is not None:
        await _set_mode(connection, session_id, mode, opened)
    return Session(session_id, can_load, is_loaded, detail)


class _NotLoaded(Exception):
    """An earlier session can't be gone on with; the text says why."""


async def _loaded(
    connection: ClientSideConnection, tree: Path, load: str, can_load: bool, patience: float
) -> schema.LoadSessionResponse:
    if not can_load:
        raise _NotLoaded("The agent can't load an earlier session.")
    try:
        async with asyncio.timeout(patience):
            return await connection.load_session(cwd=str(tree), session_id=load, mcp_servers=[])
    except TimeoutError:
        raise _NotLoaded(f"The earlier session was not loaded within {patience:g} s.") from None
    except ValidationError:
        raise _NotLoaded("The answer to loading the earlier session can't be understood.") from None
    except RequestError as error:
        if is_provider_trouble(error):
            raise
        raise _NotLoaded(f"The earlier session could not be loaded: {reason_of(error)}") from None


async def _set_mode(
    connection: ClientSideConnection,
    session_id: str,
    mode: str,
    opened: schema.NewSessionResponse | schema.LoadSessionResponse,
) -> None:
    modes = [one.id for one in opened.modes.available_modes] if opened.modes else []
    if mode in modes:
        await connection.set_session_mode(session_id=session_id, mode_id=mode)
        return
    for option in opened.config_options or []:
        if isinstance(option, schema.SessionConfigOptionSelect) and "mode" in (option.category, option.id):
            values = list(_values(option.options))
            if mode in values:
                await connection.set_config_option(config_id=option.id, session_id=session_id, value=mode)
                return
            modes += values
    there = f"It has {', '.join(modes)}." if modes else "It has no modes."
    raise SessionRefused(f"The agent has no mode {mode!r}. {there}")


def _values(options: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for option in options:
        found += [option.value] if isinstance(option, schema.SessionConfigSelectOption) else _values(option.options)
    return found


def reason_of(error: RequestError) -> str:
    """An agent's error in one line; what it says may be anything."""
    data = error.data
    details: Any = ""
    if isinstance(data, dict):
        details = data.get("details") or data.get("message") or data.get("reason") or data
    elif data is not None:
        details = data
    text = f"error {error.code}: {error}" + (f" ({details})" if details else "")
    return " ".join(text.split())[:500]


def is_provider_trouble(error: RequestError) -> bool:
    """Whether the agent itself says that its provider lets nobody in, or nobody through.

    Some agents give the HTTP status of their provider as the code.
    """
    return error.code == AUTHENTICATION_REQUIRED or error.code in REFUSING or 500 <= error.code < 600
