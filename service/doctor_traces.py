"""`butler doctor` on traces: whether what was switched on is installed, configured and listened to (B8, E5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

import httpx2

from service.doctor import Finding
from service.watching.opening import COZE_NEEDS, ENDPOINTS, coze_is_wanted, is_wanted

NAME = "traces"
WAIT_SECONDS = 5.0
COZE_URL = "https://api.coze.cn"
"""Where CozeLoop's SDK sends spans by itself."""
SPOKEN = "http/protobuf"


def traces(environ: Mapping[str, str], found: Callable[[str], object] = find_spec) -> Iterator[Finding]:
    """What keeps spans from arriving; nothing of it is needed.

    Args:
        environ: the variables in force. found: tells whether a module is installed.
    """
    if not is_wanted(environ) and not coze_is_wanted(environ):
        yield Finding(NAME, "good", "off as set here; OTEL_EXPORTER_OTLP_ENDPOINT or CozeLoop switches them on")
    if is_wanted(environ):
        yield _otlp(environ, found)
    if coze_is_wanted(environ):
        yield _cozeloop(environ, found)


def _otlp(environ: Mapping[str, str], found: Callable[[str], object]) -> Finding:
    if not _is_there("opentelemetry.exporter.otlp.proto.http", found):
        return Finding(NAME, "bad", "what sends them is not installed", "run: pip install 'butler[otel]'")
    spoken = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or SPOKEN
    if spoken != SPOKEN:
        do = f"set OTEL_EXPORTER_OTLP_PROTOCOL={SPOKEN} and the receiver's HTTP port (usually 4318)"
        return Finding(NAME, "bad", f"Butler does not speak {spoken}", do)
    url = environ.get(ENDPOINTS[1]) or f"{environ.get(ENDPOINTS[0], '').rstrip('/')}/v1/traces"
    shown = _shown(url)
    headers = {"Content-Type": "application/x-protobuf", **_headers(environ)}
    try:
        # No spans at all, which is a valid request.
        status = httpx2.post(url, content=b"", headers=headers, timeout=WAIT_SECONDS).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        do = f"start the receiver, or correct {ENDPOINTS[0]}"
        return Finding(NAME, "bad", f"{shown} does not answer: {type(error).__name__}", do)
    if status in (401, 403):
        return Finding(NAME, "bad", f"{shown} refuses (HTTP {status})", "see OTEL_EXPORTER_OTLP_HEADERS")
    if status in (404, 405):
        return Finding(NAME, "bad", f"{shown} takes no traces (HTTP {status})", f"correct {ENDPOINTS[0]}")
    if status >= 500:
        return Finding(NAME, "bad", f"{shown} answers HTTP {status}", "look at the receiver's log")
    return Finding(NAME, "good", f"{shown} takes them")


def _cozeloop(environ: Mapping[str, str], found: Callable[[str], object]) -> Finding:
    name = "CozeLoop"
    if missing := [one for one in COZE_NEEDS if not environ.get(one)]:
        do = f"set {' and '.join(missing)}, or OBSERVABILITY_COZELOOP_ENABLED=false"
        return Finding(NAME, "bad", f"{name} is switched on without its settings", do)
    if not _is_there("cozeloop", found):
        return Finding(NAME, "bad", f"{name}'s SDK is not installed", "run: pip install 'butler[cozeloop]'")
    url = environ.get("COZELOOP_API_BASE_URL") or COZE_URL
    try:
        httpx2.get(url, timeout=WAIT_SECONDS)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        do = "see COZELOOP_API_BASE_URL and this machine's way to it"
        return Finding(NAME, "bad", f"{name} at {_shown(url)} does not answer: {type(error).__name__}", do)
    return Finding(NAME, "good", f"{name} at {_shown(url)} answers; whether it takes the token shows in the log")


def _is_there(module: str, found: Callable[[str], object]) -> bool:
    try:
        return found(module) is not None
    except ModuleNotFoundError:
        return False


def _headers(environ: Mapping[str, str]) -> dict[str, str]:
    """``name=value,name=value``, percent-encoded, as OpenTelemetry has it."""
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get("OTEL_EXPORTER_OTLP_HEADERS") or ""
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): unquote(value.strip()) for name, mark, value in pairs if mark and name.strip()}


def _shown(url: str) -> str:
    """An address without a name and password in it."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "the receiver"
    except ValueError:
        return "the receiver"
