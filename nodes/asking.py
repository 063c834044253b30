"""One question to the model: the prompt that fits, shown as it is answered, and again if it did not fit after
all (B2, C3).
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from butler.errors import ModelFailed
from butler.memory.prompt import build_prompt
from butler.memory.trim import count_messages, count_tokens
from butler.models.gateway import ModelGateway
from butler.models.overflow import ContextOverflow
from butler.redact_stream import STALLED_SECONDS, StreamRedactor
from butler.tools.registry import ToolRegistry
from butler.turn import TurnState
from butler.types import Json, ModelReply
from nodes.context import TurnContext

SHORTER_TRIES = 2


async def ask(state: TurnState, messages: list[Json], context: TurnContext) -> ModelReply:
    """Ask the model, at most `SHORTER_TRIES` times more with less of the talk when the endpoint finds it too long.

    Raises:
        ModelFailed: with what the person is told.
    """
    faculties = context.faculties
    if faculties.model is None:
        raise ModelFailed(
            f"No model is configured. Set {' and '.join(faculties.model_missing)} and start Butler again; "
            "until then /help shows what works without one."
        )

    await faculties.tools.look()
    # The tools of one moment: what the prompt leaves room for is what is sent.
    tools = faculties.tools.snapshot()
    memory = ""
    if faculties.memory is not None and state.get("memory_block"):
        memory = await faculties.memory.text(state["incoming"]["thread_id"], state["incoming"]["user_id"])
    limit, tries, refused = faculties.context_limit, 0, None
    while True:
        prompt = build_prompt(messages, summary=state.get("summary") or "", tools=tools, limit=limit, memory=memory)
        if refused is not None and prompt.messages == refused[0]:
            raise refused[1]
        if prompt.notice:
            context.emit("notice", {"text": prompt.notice})
        context.draft.clear()
        try:
            return await _stream(faculties.model, prompt.messages, tools, context)
        except ContextOverflow as overflow:
            if tries == SHORTER_TRIES:
                raise
            tries += 1
            refused = prompt.messages, overflow
            estimate = count_messages(prompt.messages) + count_tokens(tools.schema_text)
            limit = overflow.overflow.smaller_limit(limit, estimate)


async def _stream(model: ModelGateway, messages: list[Json], tools: ToolRegistry, context: TurnContext) -> ModelReply:
    """Show the answer as it comes; a fold that holds it up gives way."""
    compactor = context.faculties.compactor
    with compactor.behind(model.endpoint) if compactor is not None else nullcontext(_nothing) as answered:
        shown = _Shown(context)

        def show(text: str) -> None:
            answered()
            context.draft.append(text)
            shown.take(text)

        def tell(text: str) -> None:
            context.emit("notice", {"text": text})

        try:
            return await model.stream(messages, tools.model_schemas(), show, tell)
        finally:
            shown.end()


class _Shown:
    """The text as it goes out: masked, and soon also where the model pauses."""

    def __init__(self, context: TurnContext) -> None:
        self._emit = context.emit
        self._masking = StreamRedactor(context.faculties.redactor)
        self._alarm: asyncio.TimerHandle | None = None

    def take(self, text: str) -> None:
        """The next piece."""
        self._say(self._masking.feed(text))
        if self._masking.waiting:
            self._alarm = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._release)

    def end(self) -> None:
        """No more comes."""
        self._say(self._masking.rest())

    def _release(self) -> None:
        self._say(self._masking.release())

    def _say(self, text: str) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if text:
            self._emit("token", {"text": text})


def _nothing() -> None:
    """No fold waits for the first token."""
