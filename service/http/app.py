"""The FastAPI application over a running house."""

from __future__ import annotations

from fastapi import FastAPI

from service.auth import Doorkeeper
from service.butler import ButlerService
from service.http import problems
from service.http.approvals import approval_routes
from service.http.audit import audit_routes
from service.http.chat import chat_routes
from service.http.grants import grant_routes
from service.http.health import health_routes
from service.http.links import link_routes
from service.http.maids import maid_routes
from service.http.memory import memory_routes
from service.http.memory_page import memory_page_routes
from service.http.metrics import metrics_routes
from service.http.openapi import DocumentedApp
from service.http.pages import page_routes
from service.http.people import people_routes
from service.http.security import Door, failed_attempts
from service.http.threads import thread_routes
from service.http.tools import tool_routes
from service.mcp.route import mcp_routes
from service.metrics.counts import Turns
from service.openai.routes import openai_routes
from service.socket.hub import Hub
from service.socket.route import socket_routes


def create_app(service: ButlerService, *, behind_https: bool = False) -> FastAPI:
    """Routes, errors and the door, over `service`.

    Args:
        behind_https: browsers reach it through https only, so its cookie goes no other way.
    """
    # No docs pages: they would load scripts from other hosts. The OpenAPI document itself is served. No redirect from
    # paths with a slash too many either: it would name whatever host the request named.
    app = DocumentedApp(title="Butler", version="1", docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    app.state.doorkeeper = Doorkeeper(service.database)
    app.state.failures = failed_attempts()
    app.state.behind_https = behind_https
    app.state.hub = Hub(service, app.state.doorkeeper, app.state.failures)
    problems.install(app)
    turns = Turns()
    for routes in (
        chat_routes(),
        approval_routes(),
        grant_routes(),
        audit_routes(),
        people_routes(),
        thread_routes(),
        tool_routes(),
        memory_routes(),
        memory_page_routes(),
        maid_routes(),
        health_routes(),
        page_routes(),
        link_routes(),
        socket_routes(app.state.hub),
        openai_routes(),
        metrics_routes(turns),
        mcp_routes(),
    ):
        app.include_router(routes)
    turns.listen(service.runs.logs)
    app.add_middleware(Door, doorkeeper=app.state.doorkeeper, failures=app.state.failures)
    return app
