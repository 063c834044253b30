"""The FastAPI application over a running house."""

from __future__ import annotations

from fastapi import FastAPI

from service.auth import Doorkeeper
from service.butler import ButlerService
from service.http import problems
from service.http.approvals import approval_routes
from service.http.audit import audit_routes
from service.http.chat import chat_routes
from service.http.health import health_routes
from service.http.openapi import DocumentedApp
from service.http.pages import page_routes
from service.http.security import Door
from service.http.threads import thread_routes


def create_app(service: ButlerService) -> FastAPI:
    """Routes, errors and the door, over `service`."""
    # No docs pages: they would load scripts from other hosts. The OpenAPI document itself is served.
    app = DocumentedApp(title="Butler", version="1", docs_url=None, redoc_url=None)
    app.state.service = service
    problems.install(app)
    for routes in (
        chat_routes(),
        approval_routes(),
        audit_routes(),
        thread_routes(),
        health_routes(),
        page_routes(),
    ):
        app.include_router(routes)
    app.add_middleware(Door, doorkeeper=Doorkeeper(service.database))
    return app
