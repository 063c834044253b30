"""Which telemetry is in force: none, unless OpenTelemetry's own variables say where spans go (B8)."""

from __future__ import annotations

import os
from collections.abc import Mapping

import structlog

from butler.telemetry import OFF, Telemetry

log = structlog.get_logger("butler.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans are to be sent: an endpoint is set, and nothing switches them off."""
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    other = environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in ("", "otlp")
    return not off and not other and any(environ.get(name, "").strip() for name in ENDPOINTS)


def open_telemetry(environ: Mapping[str, str]) -> Telemetry:
    """The telemetry of a house. What it needs is imported only if it is wanted; without it the house runs unwatched."""
    if not is_wanted(environ):
        return OFF
    # Its library reads the process environment alone; `.env` may have set the rest.
    for name, value in environ.items():
        if name.startswith("OTEL_"):
            os.environ.setdefault(name, value)
    try:
        from service.watching.otel import OpenTelemetry
    except ImportError as error:
        log.warning(
            "telemetry_not_installed", missing=error.name, do="install the extra: pip install 'butler[otel]'"
        )  # fmt: skip
        return OFF
    return OpenTelemetry(environ.get("OTEL_SERVICE_NAME") or environ.get("OBSERVABILITY_SERVICE_NAME") or "butler")
