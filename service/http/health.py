"""Whether the process lives, and whether it can serve (http-api, *health*)."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from fastapi import APIRouter, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from butler import telemetry
from butler.storage import audit
from butler.types import Json
from service.doctor_machine import disk
from service.doctor_mcp import ready_check
from service.doctor_notify import failing, sentence
from service.http.chat import json_response, service_of
from service.http.openapi import Responses
from service.http.security import caller
from service.maids import MaidService
from service.socket.hub import Hub

PROBE_SECONDS = 10.0
DO = "`butler doctor` on the server's machine says more; see BUTLER_DATA_DIR and the log."
NOT_READY: Responses = {503: {"description": "A check failed", "content": {"application/json": {}}}}


class Health:
    """Readiness with the model's answer remembered for a few seconds, so that probes stay cheap."""

    def __init__(self) -> None:
        self._model: tuple[float, Json] | None = None

    async def checks(self, request: Request) -> dict[str, Json]:
        """Each check by name: ``ok`` and, where there is something to do, ``detail``."""
        service = service_of(request)
        checks: dict[str, Json] = {}
        for name, probe in (
            ("database", service.database.read(audit.ensure_head)),
            ("checkpoints", service.runs.brain.ping()),
        ):
            try:
                await probe
                checks[name] = {"ok": True}
            except Exception as error:
                detail = f"{type(error).__name__}: {error}. {DO}"
                checks[name] = {"ok": False, "detail": service.faculties.redactor.text(detail)}
        checks["data_dir"] = await asyncio.to_thread(_data_check, service.database.path)
        checks["model"] = await self._model_check(request)
        checks |= await self._notifications_check(request)
        admin = caller(request).is_admin
        checks |= ready_check(service.faculties.mcp, service.faculties.redactor, admin=admin)
        if service.faculties.compactor is not None:
            # It never makes Butler unready: a talk goes on unfolded.
            checks["compaction"] = {"ok": True, "detail": str(service.faculties.compactor.counts)}
        if faults := service.background.faults():
            detail = "; ".join(f"{name}: {service.faculties.redactor.text(fault)}" for name, fault in faults.items())
            checks["background"] = {"ok": False, "detail": detail}
        return checks | await _others(request)

    async def _notifications_check(self, request: Request) -> dict[str, Json]:
        """Named only when a channel fails, and ok even then: Butler serves without a chat service."""
        try:
            troubles = await service_of(request).database.read(failing)
        except SQLAlchemyError as error:
            return {"notifications": {"ok": True, "detail": f"can't be looked at: {type(error).__name__}"}}
        # Whose channels these are, and what their services say, is no business of every member.
        detail = "; ".join(sentence(trouble) for trouble in troubles)
        if not caller(request).is_admin:
            detail = f"{len(troubles)} channel(s) fail; an admin sees which."
        return {"notifications": {"ok": True, "detail": detail}} if troubles else {}

    async def _model_check(self, request: Request) -> Json:
        faculties = service_of(request).faculties
        if faculties.model is None:
            missing = " and ".join(faculties.model_missing)
            return {
                "ok": True,
                "configured": False,
                "detail": f"No model: set {missing}. Commands work without one.",
            }
        if self._model is None or self._model[0] < time.monotonic() - PROBE_SECONDS:
            fault = await faculties.model.probe()
            found: Json = {"ok": fault is None, "configured": True, **({"detail": fault} if fault else {})}
            self._model = (time.monotonic(), found)
        return self._model[1]


def _data_check(database: Path) -> Json:
    """Whether more can be written down; a turn that can't be is held up, so nobody should be sent here."""
    found = disk(database.parent)
    if found.state == "bad":
        return {"ok": False, "detail": f"{found.detail}; {found.do}"}
    try:
        with tempfile.TemporaryFile(dir=database.parent) as probe:
            probe.write(b"butler")
    except OSError as error:
        return {"ok": False, "detail": f"{database.parent} can't be written to ({error.strerror}); see BUTLER_DATA_DIR"}
    return {"ok": True}


async def _others(request: Request) -> dict[str, Json]:
    """Parts that are named so that one can see them; they never make Butler unready."""
    service, hub = service_of(request), request.app.state.hub
    assert isinstance(hub, Hub)
    checks: dict[str, Json] = {
        "agents": {"ok": True, "detail": f"{hub.board.online} connected"},
        "socket": {"ok": True, "detail": f"{hub.connections} open connection(s)"},
        "traces": {"ok": True, "detail": "off" if telemetry.is_off() else "on"},
    }
    try:
        maids = [maid for maid in await MaidService(service).listing() if maid["enabled"]]
    except SQLAlchemyError as error:
        return checks | {"maids": {"ok": True, "detail": f"can't be looked at: {type(error).__name__}"}}
    if maids:
        able = sum(maid["healthy"] for maid in maids)
        less = "; butler doctor says what the others lack" if able < len(maids) else ""
        checks["maids"] = {"ok": True, "detail": f"{able} of {len(maids)} could start now{less}"}
    return checks


def health_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter()
    health = Health()

    @router.get("/healthz")
    async def alive() -> Response:
        """200 while the process lives."""
        return json_response({"status": "ok"})

    @router.get("/readyz", responses=NOT_READY)
    async def ready(request: Request) -> Response:
        """200 when every check is ok, else 503; each check by name."""
        checks = await health.checks(request)
        ok = all(check["ok"] for check in checks.values())
        return json_response({"status": "ready" if ok else "not_ready", "checks": checks}, 200 if ok else 503)

    return router
