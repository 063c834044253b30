"""``python -m bench.folding``: folding beside LangChain's SummarizationMiddleware, on the same talks and models.

Without options a scripted summariser writes down every planted fact that it is shown, so that what is lost was lost
by the machinery around it. With ``--url`` and ``--model`` a real model at an OpenAI-compatible endpoint summarises.
The butler's own answers are scripted in both cases, so a turn's time is what folding adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr, SecretStr

from butler.errors import ModelFailed
from butler.memory.compaction import CompactionConfig, Compactor
from butler.memory.prompt import SYSTEM_PROMPT
from butler.memory.tokens import count_tokens
from butler.models.config import ModelConfig
from butler.models.gateway import ModelGateway
from butler.types import ChatMessage, Json
from tests.support.headless import open_brain, says
from tests.support.talks import TALKS, Talk

Kind = Literal["scripted", "careless", "failing", "slow", "real"]
SLOW_SECONDS = 2.0
KEPT_MESSAGES = 2
FILLER = "This is said at some length, as models like to do, and nothing of it will matter later. "


@dataclass(frozen=True)
class Summariser:
    """Who summarises: a real endpoint, or a script that is sound, slow, fails, or notes one fact of what it sees."""

    kind: Kind
    url: str = ""
    model: str = ""
    timeout: float = 30.0


@dataclass
class Run:
    """What one side did over one talk."""

    side: str
    kept: int = 0
    sent: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    folds: int = 0

    def row(self) -> str:
        """A row of the table."""
        mean = sum(self.sent) // max(1, len(self.sent))
        slowest, middle = max(self.seconds), sorted(self.seconds)[len(self.seconds) // 2]
        return (
            f"| {self.side} | {self.folds} | {self.kept}/10 | {mean} | {max(self.sent, default=0)} | "
            f"{middle * 1000:.0f} ms | {slowest * 1000:.0f} ms | {self.failed} |"
        )


HEAD = (
    "| side | folds | facts kept | tokens a turn, mean | most | turn, median | slowest | failed turns |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def facts_shown(talk: Talk, shown: str) -> str:
    """Every fact whose message, or whose note, is in a text."""
    return "\n".join(fact.note for fact in talk.facts if talk.told[fact.number - 1] in shown or fact.note in shown)


class ScriptedCompleter:
    """Butler's hidden call, answered by the script."""

    endpoint = "scripted"

    def __init__(self, talk: Talk, kind: Kind) -> None:
        self._talk, self._kind = talk, kind

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: Literal["compaction"],
        timeout: float,  # noqa: ASYNC109 - as in the protocol
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Note what is shown."""
        if self._kind == "failing":
            raise ModelFailed("The summariser is down.")
        if self._kind == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        facts = facts_shown(self._talk, str(messages[-1]["content"])).splitlines() or [self._talk.told[0]]
        if self._kind == "careless":
            facts = facts[:1]
        return json.dumps({"notes": [{"source": 1, "kind": "fact", "text": text} for text in facts]})


class Speaker(BaseChatModel):
    """The baseline's chat model: says the butler's lines of the talk, or answers as the summariser."""

    talk: Any
    kind: str
    summarises: bool = False
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        text = self._summary(messages) if self.summarises else self._line(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _line(self, messages: list[BaseMessage]) -> str:
        self._requests.append(messages)
        lines = self.talk.told[1::2]
        return str(lines[min(len(self._requests), len(lines)) - 1])

    def _summary(self, messages: list[BaseMessage]) -> str:
        if self.kind == "failing":
            raise RuntimeError("The summariser is down.")
        if self.kind == "slow":
            time.sleep(SLOW_SECONDS)
        shown = "\n".join(str(message.content) for message in messages)
        # The middleware shows messages as JSON-like text; escapes would hide the facts from the script.
        facts = facts_shown(self.talk, shown.replace("\\'", "'").replace('\\"', '"')) or "A talk."
        return facts.splitlines()[0] if self.kind == "careless" else facts


async def run_butler(talk: Talk, summariser: Summariser, trigger: int) -> Run:
    """The talk through Butler's nodes; a fold may finish while the person writes, as in life."""
    run = Run("Butler")
    if summariser.kind == "real":
        speaker: Any = ModelGateway(ModelConfig(summariser.url, summariser.model, timeout=summariser.timeout))
    else:
        speaker = ScriptedCompleter(talk, summariser.kind)
    compactor = Compactor(speaker, CompactionConfig(10**9, trigger, KEPT_MESSAGES, summariser.timeout))
    with tempfile.TemporaryDirectory(prefix="butler-folding-") as home:
        lines = [*map(says, talk.told[1::2]), says("."), says(".")]
        async with open_brain(Path(home), *lines, compactor=compactor) as brain:
            for text in (*talk.told[::2], ".", "."):
                began = time.perf_counter()
                state = await brain.say(text)
                run.seconds.append(time.perf_counter() - began)
                run.failed += state["ending"]["status"] != "done"
                await compactor.settle("thread")
            for request in brain.model.heard:
                run.sent.append(sum(count_tokens(str(message["content"])) + 4 for message in request))
            last = brain.model.heard[-1]
    run.kept = talk.kept("\n".join(str(message["content"]) for message in last))
    run.folds = compactor.counts.folded
    await compactor.aclose()
    return run


async def run_middleware(talk: Talk, summariser: Summariser, trigger: int) -> Run:
    """The same talk through ``create_agent`` with the middleware at its defaults but the same thresholds."""
    run = Run("SummarizationMiddleware")
    if summariser.kind == "real":
        model: BaseChatModel = ChatOpenAI(
            base_url=summariser.url, model=summariser.model, api_key=SecretStr("none"), temperature=0,
            timeout=summariser.timeout, max_retries=0, max_completion_tokens=1000,
        )  # fmt: skip
    else:
        model = Speaker(talk=talk, kind=summariser.kind, summarises=True)
    speaker = Speaker(talk=talk, kind="scripted")
    middleware = SummarizationMiddleware(
        model=model, trigger=("messages", trigger + 1), keep=("messages", KEPT_MESSAGES + 1)
    )
    agent: Any = create_agent(
        model=speaker, tools=[], system_prompt=SYSTEM_PROMPT, middleware=[middleware], checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "thread"}}
    summaries: set[str] = set()
    for text in (*talk.told[::2], ".", "."):
        began = time.perf_counter()
        try:
            state = await agent.ainvoke({"messages": [{"role": "user", "content": text}]}, config)
            summaries |= {m.content for m in state["messages"] if m.additional_kwargs.get("lc_source")}
        except Exception as error:
            run.failed += 1
            print(f"  {type(error).__name__}: {str(error)[:100]}")
        run.seconds.append(time.perf_counter() - began)
    for request in speaker._requests:
        run.sent.append(sum(count_tokens(str(message.content)) + 4 for message in request))
    run.kept = talk.kept("\n".join(str(message.content) for message in speaker._requests[-1]))
    run.folds = len(summaries)
    return run


def long_form(talk: Talk) -> Talk:
    """The talk with long answers of the butler."""
    told = tuple(f"{text} {FILLER * 40}" if at % 2 else text for at, text in enumerate(talk.told))
    return Talk(f"{talk.language}, long answers", told, talk.facts)


async def main(options: argparse.Namespace) -> None:
    """Run what is asked for and print the tables."""
    kinds: list[Kind] = ["real"] if options.url else ["scripted", "careless", "slow", "failing"]
    talks = [talk for talk in TALKS if options.language in ("", talk.language)]
    for kind in kinds:
        summariser = Summariser(kind, options.url, options.model, options.timeout if kind == "real" else 30.0)
        wanted = talks if kind in ("scripted", "careless", "real") else talks[:1]
        for talk in [*wanted, *([long_form(talks[0])] if kind == "scripted" else [])]:
            print(f"\n{talk.language}, {options.model or kind} summariser\n\n{HEAD}", flush=True)
            for side in (run_butler, run_middleware):
                if options.side in ("", side.__name__.removeprefix("run_")):
                    print((await side(talk, summariser, options.trigger)).row(), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="base URL of the endpoint, with /v1")
    parser.add_argument("--model", default="")
    parser.add_argument("--language", default="", choices=["", *(talk.language for talk in TALKS)])
    parser.add_argument("--side", default="", choices=["", "butler", "middleware"])
    parser.add_argument("--trigger", type=int, default=12, help="messages from which on it folds")
    parser.add_argument("--timeout", type=float, default=600.0)
    asyncio.run(main(parser.parse_args()))
