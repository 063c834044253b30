"""Telemetry is off unless it is wanted, and then nothing of it is loaded (B8)."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from structlog.testing import capture_logs

from butler.telemetry import OFF, Attributes, Kind, span
from service.watching.opening import is_wanted, open_telemetry
from service.watching.several import Several

ROOT = Path(__file__).resolve().parents[2]
SOMEWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (SOMEWHERE, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x/v1/traces"}, True),
        ({**SOMEWHERE, "OTEL_SDK_DISABLED": "true"}, False),
        ({**SOMEWHERE, "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_spans_are_sent_when_an_address_is_set_and_nothing_switches_them_off(
    environ: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(environ) is wanted


def test_by_default_a_span_is_nothing_and_lets_errors_through() -> None:
    assert open_telemetry({}) is OFF
    with pytest.raises(ValueError, match="mine"), span("butler.user_message", {}) as told:
        told.note({"a": 1})
        told.fail("kind")
        raise ValueError("mine")


def test_nothing_that_sends_is_loaded_by_default() -> None:
    """FastAPI itself loads OpenTelemetry's interface, and LangChain its SDK where that is installed; neither sends."""
    code = (
        "import sys, server, service.house; from service.watching.opening import open_telemetry; open_telemetry({});"
        "senders = ('opentelemetry.exporter', 'service.watching.otel', 'cozeloop');"
        "loaded = [name for name in sys.modules if name.startswith(senders)];"
        "from opentelemetry import trace; provider = type(trace.get_tracer_provider()).__name__;"
        "sys.exit(f'{loaded} {provider}' if loaded or provider != 'ProxyTracerProvider' else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("library", "room"), [("opentelemetry", "otel"), ("cozeloop", "coze")])
def test_our_own_code_imports_each_library_in_one_file_only(library: str, room: str) -> None:
    importing = re.compile(rf"^\s*(?:import|from) {library}\b", re.MULTILINE)
    found = [
        path.relative_to(ROOT).as_posix()
        for floor in ("butler", "config", "graph", "nodes", "service")
        for path in (ROOT / floor).rglob("*.py")
        if importing.search(path.read_text("utf-8"))
    ]
    assert found == [f"service/watching/{room}.py"]


def test_attributes_of_the_genai_conventions_are_ones_that_hold_today() -> None:
    text = Path(gen_ai_attributes.__file__).read_text("utf-8")
    known = dict(re.findall(r'^[A-Z_]+: Final = "(gen_ai[a-z_.]+)"\n"""\n(.*)$', text, re.MULTILINE))
    # All of them have moved to a repository of their own, without other names; those that are over say so.
    current = {name for name, about in known.items() if not about.startswith(("Deprecated: R", "Deprecated: O"))}
    assert {"gen_ai.operation.name", "gen_ai.usage.input_tokens"} <= current and "gen_ai.system" not in current
    used = {
        name
        for floor in ("butler", "nodes", "service")
        for path in (ROOT / floor).rglob("*.py")
        for name in re.findall(r'"(gen_ai[a-z_.]+)"', path.read_text("utf-8"))
    }
    assert len(used) > 8 and used <= current


def test_two_receivers_are_told_the_same() -> None:
    first, second = Noting(), Noting()
    several = Several([first, second])
    with several.span("a", {"x": 1}, "internal") as told:
        told.note({"y": 2})
        told.fail("z")
    several.close()
    assert first.told == second.told == ["a", {"y": 2}, "z", "closed"]


class Noting:
    """A telemetry that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.note = self.told.append
        self.fail = self.told.append

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Any]:
        self.told.append(name)
        return nullcontext(self)

    def close(self) -> None:
        self.told.append("closed")


def test_without_the_extra_the_house_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **more: Any) -> Any:
        if name == "service.watching.otel":
            raise ImportError("gone", name="opentelemetry.sdk")
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    for name in SOMEWHERE:
        monkeypatch.setenv(name, SOMEWHERE[name])
    with capture_logs() as lines:
        assert open_telemetry(SOMEWHERE) is OFF
    assert lines[0]["event"] == "telemetry_not_installed"
    assert "butler[otel]" in lines[0]["do"]
