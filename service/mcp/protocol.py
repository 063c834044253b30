"""The MCP server of the SDK over Butler's tools, the same for `/mcp` and `butler mcp`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from butler.errors import ButlerError
from butler.types import Json
from service.events import to_json
from service.mcp.answers import Answer
from service.mcp.offer import INSTRUCTIONS, NAME, OFFERS, RUN_PREFIX, RUN_TEMPLATE, TITLE, Offer

Context = ServerRequestContext[Any, Any]
Call = Callable[[Context, str, Json], Awaitable[Answer]]
"""Carries out a tool: context, name, arguments. Raises LookupError for an unknown tool."""
Read = Callable[[Context, str], Awaitable[Json]]
"""The Outcome of a run by its id. Raises ButlerError ``not_found``."""
JSON_TYPE = "application/json"


def make_server(call: Call, read: Read) -> Server[Any]:
    """A server that offers the tools and the resource of runs, and leaves the work to `call` and `read`."""

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offer) for offer in OFFERS])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return _result(await call(context, params.name, params.arguments or {}))
        except LookupError:
            known = ", ".join(offer.name for offer in OFFERS)
            detail = f"There is no tool {params.name!r}; there are {known}."
            raise MCPError(types.INVALID_PARAMS, detail, {"code": "not_found", "detail": detail}) from None

    async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        about = "The Outcome of a turn: its status, Butler's reply, and what waits for a decision."
        template = types.ResourceTemplate(
            uri_template=RUN_TEMPLATE, name="run", title="A turn", description=about, mime_type=JSON_TYPE
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        run_id = uri.removeprefix(RUN_PREFIX)
        try:
            if run_id == uri:
                raise ButlerError("not_found", f"There is no resource {uri!r}; there is {RUN_TEMPLATE}.")
            text = to_json(await read(context, run_id)).decode()
        except ButlerError as error:
            data = {"code": error.code, "detail": error.detail}
            raise MCPError(types.INVALID_PARAMS, error.detail, data) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=JSON_TYPE, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        NAME, version=_version(), title=TITLE, instructions=INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool, on_list_resources=list_resources, on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )  # fmt: skip


def _tool(offer: Offer) -> types.Tool:
    return types.Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=offer.arguments,
        output_schema=offer.answer,
        annotations=types.ToolAnnotations(
            title=offer.title, read_only_hint=offer.read_only, destructive_hint=offer.destructive,
            idempotent_hint=offer.idempotent, open_world_hint=offer.open_world,
        ),
    )  # fmt: skip


def _result(answer: Answer) -> types.CallToolResult:
    """The value as JSON text too, for clients that read no structured content."""
    texts = [to_json(answer.value).decode(), *([answer.text] if answer.text else [])]
    return types.CallToolResult(
        content=[types.TextContent(text=text) for text in texts],
        structured_content=answer.value,
        is_error=answer.is_error,
    )


def _version() -> str:
    try:
        return version("butler")
    except PackageNotFoundError:
        return "1"  # run from its folder, not installed
