"""Log lines are JSON, name what is at work, and never hold a known secret (B8, F2)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from butler.redact import Redactor
from service.watching.logs import set_up_logging

SECRET = "hunter2-hunter2"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged; the logging of the tests' own process is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    set_up_logging(stream, Redactor([SECRET]))
    yield stream
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_names_the_thread_the_run_and_the_action(lines: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(thread_id="t", run_id="r", action_id="a"):
        structlog.get_logger("butler.models").warning("model_retry", tries=2)
    structlog.get_logger("butler.models").info("after")
    first, second = read(lines)
    assert first["event"] == "model_retry"
    assert (first["thread_id"], first["run_id"], first["action_id"], first["tries"]) == ("t", "r", "a", 2)
    assert first["level"] == "warning" and first["timestamp"].endswith("Z")
    assert "thread_id" not in second


def test_secrets_are_masked_in_words_values_and_traces(lines: io.StringIO) -> None:
    log = structlog.get_logger("butler.runs")
    try:
        raise ValueError(f"no entry with {SECRET}")
    except ValueError as error:
        log.error(f"failed with {SECRET}", deep={"list": [SECRET]}, odd=ValueError(SECRET), exc_info=error)
    logging.getLogger("some.library").warning("it said %s", SECRET)
    assert SECRET not in lines.getvalue()
    first, second = read(lines)
    assert "ValueError: no entry with ***" in first["exception"]
    assert first["deep"] == {"list": ["***"]}
    assert second["event"] == "it said ***" and second["logger"] == "some.library"


def test_a_library_speaks_from_warnings_on(lines: io.StringIO) -> None:
    logging.getLogger("some.library").info("chatter")
    assert lines.getvalue() == ""
