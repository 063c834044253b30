"""Calls of Butler's MCP tools as plain JSON-RPC, so that a test sees the wire."""

from __future__ import annotations

from typing import Any

import httpx
from jsonschema import Draft202012Validator

from service.mcp.offer import OFFERS
from tests.support.client import Client, Json

ANSWERS = {offer.name: offer.answer for offer in OFFERS}


def rpc(client: Client, method: str, params: Json | None = None, **headers: str) -> httpx.Response:
    """One JSON-RPC request to `/mcp`, whatever comes of it."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return client.request("POST", "/mcp", json=body, headers=headers)


def tool(client: Client, name: str, **arguments: Any) -> Json:
    """What a tool gives, which must be no error."""
    result = called(client, name, arguments)
    assert result["isError"] is False, result
    value: Json = result["structuredContent"]
    return value


def refusal(client: Client, name: str, **arguments: Any) -> Json:
    """What a tool refuses with."""
    result = called(client, name, arguments)
    assert result["isError"] is True, result
    value: Json = result["structuredContent"]
    return value


def called(client: Client, name: str, arguments: Any) -> Json:
    """The result of a call, good or bad."""
    response = rpc(client, "tools/call", {"name": name, "arguments": arguments})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["id"] == 7 and "error" not in answer, answer
    result: Json = answer["result"]
    # Refusals as well: the client in TypeScript looks at both.
    Draft202012Validator(ANSWERS[name]).validate(result["structuredContent"])
    return result
