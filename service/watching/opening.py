"""Which telemetry is in force: none, unless its variables say where spans go (B8)."""

from __future__ import annotations

import os
from collections.abc import Mapping

import structlog

from butler.telemetry import OFF, Telemetry
from service.watching.several import Several

log = structlog.get_logger("butler.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
COZE_NEEDS = ("COZELOOP_WORKSPACE_ID", "COZELOOP_API_TOKEN")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans go to an OTLP receiver: an endpoint is set, and nothing switches it off."""
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    other = environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in ("", "otlp")
    return not off and not other and any(environ.get(name, "").strip() for name in ENDPOINTS)


def coze_is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans go to CozeLoop; `config.settings` refuses what is neither yes nor no."""
    return environ.get("OBSERVABILITY_COZELOOP_ENABLED", "").strip().lower() in ("true", "1", "yes", "on", "t", "y")


def open_telemetry(environ: Mapping[str, str]) -> Telemetry:
    """The telemetry of a house. What it needs is imported only if it is wanted; without it the house runs unwatched."""
    service_name = environ.get("OTEL_SERVICE_NAME") or environ.get("OBSERVABILITY_SERVICE_NAME") or "butler"
    found: list[Telemetry] = []
    if is_wanted(environ) and (otlp := _otlp(environ, service_name)) is not None:
        found.append(otlp)
    if coze_is_wanted(environ) and (coze := _cozeloop(environ, service_name)) is not None:
        found.append(coze)
    if len(found) > 1:
        return Several(found)
    return found[0] if found else OFF


def _otlp(environ: Mapping[str, str], service_name: str) -> Telemetry | None:
    # Its library reads the process environment alone; `.env` may have set the rest.
    for name, value in environ.items():
        if name.startswith("OTEL_"):
            os.environ.setdefault(name, value)
    try:
        from service.watching.otel import OpenTelemetry
    except ImportError as error:
        _not_installed(error, "otel")
        return None
    return OpenTelemetry(service_name)


def _cozeloop(environ: Mapping[str, str], service_name: str) -> Telemetry | None:
    if missing := [name for name in COZE_NEEDS if not environ.get(name)]:
        log.warning("telemetry_not_configured", do=f"set {' and '.join(missing)}, or switch CozeLoop off")
        return None
    try:
        from service.watching.coze import CozeLoop
    except ImportError as error:
        _not_installed(error, "cozeloop")
        return None
    try:
        return CozeLoop(environ, service_name)
    except ValueError as error:
        log.warning("telemetry_not_configured", why=str(error))
        return None


def _not_installed(error: ImportError, extra: str) -> None:
    log.warning("telemetry_not_installed", missing=error.name, do=f"install the extra: pip install 'butler[{extra}]'")
