"""Log lines: one JSON object each on standard error, with the ids of what is at work, secrets masked (B8, F2)."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.types import Processor

from butler.redact import Redactor


def set_up_logging(stream: TextIO, redactor: Redactor | None = None) -> None:
    """Write every log line to `stream`, those of libraries too (from warnings on).

    Call it again once `redactor` is known.
    """
    last: list[Processor] = [structlog.processors.format_exc_info]
    if redactor is not None:
        last.append(_Masking(redactor))
    last.append(structlog.processors.JSONRenderer())
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


class _Masking:
    """Masks known secrets in everything that a line says, traces included."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:  # fmt: skip
        masked: dict[str, Any] = self._redactor.json({key: _plain(value) for key, value in event.items()})
        return masked


def _plain(value: Any) -> Any:
    """What is no JSON goes into the line as its text, so it is masked as text."""
    return value if value is None or isinstance(value, str | int | float | dict | list) else repr(value)
