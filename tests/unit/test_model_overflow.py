"""A talk that is too long for the model is made shorter and asked again; the thread stays usable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from butler.memory.tokens import count_messages
from butler.models.config import ModelConfig
from butler.models.failures import from_event, from_status
from butler.models.overflow import ContextOverflow, Overflow
from butler.types import Json
from tests.support.headless import Brain, Line, open_brain, says

CONFIG = ModelConfig("http://127.0.0.1:1/v1", "m")
LLAMA: Json = {
    "code": 400, "message": "request (4659 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "type": "exceed_context_size_error", "n_prompt_tokens": 4659, "n_ctx": 4096,
}  # fmt: skip
OPENAI: Json = {
    "message": "This model's maximum context length is 4,097 tokens. However, your messages resulted in 5000 tokens.",
    "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
}  # fmt: skip
VLLM: Json = {
    "message": "This model's maximum context length is 2048 tokens. However, you requested 2300 tokens "
    "(2100 in the messages, 200 in the completion).", "code": 400,
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error", "sent", "takes"),
    [
        (400, LLAMA, 4659, 4096),
        (400, {"error": LLAMA}, 4659, 4096),
        (400, {"message": LLAMA["message"]}, 4659, 4096),
        (500, {"error": "the input exceeds the available context size"}, None, None),
        (400, OPENAI, 5000, 4097),
        (400, VLLM, 2300, 2048),
        (400, {"code": "context_length_exceeded"}, None, None),
        (413, "", None, None),
    ],
)
def test_a_request_that_is_too_long_is_known_as_that(status: int, error: Any, sent: Any, takes: Any) -> None:
    fault = from_status(status, error, CONFIG, "m")
    assert fault.overflow == Overflow(sent, takes)
    assert "too long for the model 'm'" in fault.detail
    assert "BUTLER_CONTEXT_LIMIT" in fault.detail and "/new" in fault.detail
    assert not fault.retry and not fault.fallback


def test_an_error_event_that_says_so_is_known_too() -> None:
    assert from_event(LLAMA, CONFIG, "m").overflow == Overflow(4659, 4096)
    assert from_event("the context size has been exceeded", CONFIG, "m").overflow == Overflow()


@pytest.mark.parametrize(
    ("status", "message"),
    [(429, "Request of 40000 tokens is over your limit of 30000 tokens; context length is fine"), (400, "bad tools"),
     (401, "context length"), (500, "out of memory")],
)  # fmt: skip
def test_other_refusals_are_not_taken_for_it(status: int, message: str) -> None:
    assert from_status(status, {"message": message}, CONFIG, "m").overflow is None


def test_the_next_limit_follows_the_endpoints_numbers_or_halves() -> None:
    assert Overflow(4659, 4096).smaller_limit(4096, 2900) == 2549
    assert Overflow().smaller_limit(32_768, 5000) == 2500
    assert Overflow(100, 4096).smaller_limit(4096, 2900) == 1450  # numbers that can't be right
    assert Overflow(8000, 4000).smaller_limit(32_768, 5000) == 2500


def too_long(sent: int | None = None, takes: int | None = None) -> ContextOverflow:
    return ContextOverflow("The talk is too long.", Overflow(sent, takes))


def sizes(brain: Brain) -> list[int]:
    return [count_messages(request) for request in brain.model.heard]


async def test_what_did_not_fit_is_asked_again_with_less_and_that_is_said(tmp_path: Path) -> None:
    lines: list[Line] = [too_long(4659, 4096), too_long(), says("short enough"), says("hello")]
    async with open_brain(tmp_path, *lines, context_limit=4096) as brain:
        state = await brain.say("长" * 2574)
        assert (state["ending"]["status"], state["ending"]["reply"]) == ("done", "short enough")
        first, second, third = sizes(brain)
        assert second <= first * 4096 / 4659 and third <= second * 0.6
        assert [notice["text"].split(" left out")[0] for notice in brain.told("notice")] == [
            "Part of a long text was"
        ] * 2
        assert state["messages"][0]["content"] == "长" * 2574  # nothing is deleted
        assert (await brain.say("Say hello."))["ending"]["reply"] == "hello"


async def test_what_never_fits_fails_after_two_more_tries_and_the_next_turn_works(tmp_path: Path) -> None:
    async with open_brain(tmp_path, *[too_long()] * 3, says("fine")) as brain:
        state = await brain.say("word " * 4000)
        assert state["ending"]["status"] == "failed"
        assert state["ending"]["error"] == {"code": "model_unavailable", "detail": "The talk is too long."}
        assert len(brain.model.heard) == 3
        assert (await brain.say("hi"))["ending"]["reply"] == "fine"


async def test_what_cannot_be_made_shorter_is_not_asked_again(tmp_path: Path) -> None:
    async with open_brain(tmp_path, too_long()) as brain:
        assert (await brain.say("hi"))["ending"]["status"] == "failed"
        assert len(brain.model.heard) == 1
