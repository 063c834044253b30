"""Spans to CozeLoop through its own SDK. Only `opening` imports this, when it is wanted (B8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import cozeloop  # type: ignore[import-untyped]

from butler.telemetry import Attributes, Kind, Span

SPAN_TYPES = {"chat": "model", "execute_tool": "tool", "invoke_agent": "agent"}
FAILED = 1


class CozeLoop:
    """One client of one workspace.

    Raises, when it is made: ValueError for settings that the SDK does not take.
    """

    def __init__(self, environ: Mapping[str, str], service_name: str) -> None:
        try:
            self._client: Any = cozeloop.new_client(
                api_base_url=environ.get("COZELOOP_API_BASE_URL", ""),
                workspace_id=environ["COZELOOP_WORKSPACE_ID"],
                api_token=environ["COZELOOP_API_TOKEN"],
            )
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        self._service_name = service_name

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """A span under the current one."""
        return self._span(name, attributes)

    @contextmanager
    def _span(self, name: str, attributes: Attributes) -> Iterator[Span]:
        span_type = SPAN_TYPES.get(str(attributes.get("gen_ai.operation.name", "")), "custom")
        opened = self._client.start_span(name, span_type)
        opened.set_service_name(self._service_name)
        told = _Span(opened)
        told.note(attributes)
        # Not as its context manager: that would send an error's message, which may hold what somebody said.
        try:
            yield told
        except BaseException as error:
            told.fail(type(error).__name__)
            raise
        finally:
            opened.finish()

    def close(self) -> None:
        """Send what is left."""
        self._client.close()


class _Span:
    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def note(self, attributes: Attributes) -> None:
        plain = {key: ",".join(value) if isinstance(value, tuple) else value for key, value in attributes.items()}
        self._opened.set_tags(plain)
        if "gen_ai.request.model" in plain:
            self._opened.set_model_name(plain["gen_ai.request.model"])
        if "gen_ai.conversation.id" in plain:
            self._opened.set_thread_id(plain["gen_ai.conversation.id"])
        if "gen_ai.usage.input_tokens" in plain:
            self._opened.set_input_tokens(plain["gen_ai.usage.input_tokens"])
            self._opened.set_output_tokens(plain["gen_ai.usage.output_tokens"])

    def fail(self, kind: str) -> None:
        self._opened.set_tags({"error.type": kind})
        self._opened.set_status_code(FAILED)
