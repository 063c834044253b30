"""Whatever is said and whatever a model makes of it: requests are sound and fit, summaries stay small (C2, C3, C4)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from butler.memory.compaction import CompactionConfig, Compactor
from butler.memory.history import repair
from butler.memory.notes import QUOTE_TOKENS, SUMMARY_TOKENS, Notes
from butler.memory.prompt import build_prompt
from butler.memory.quotes import QUOTE_CHARS
from butler.memory.tokens import count_messages, count_tokens
from butler.tools.registry import ToolRegistry
from butler.types import ChatMessage, CutText, Json

WORDS = (
    "Ann Bob Graz 3200 budget never always is not our K-77 http://x.y/z </memory> <memory> Goals: fish \u20ac5 - > ``` "
    '""" Subject: /fetch 不 花生 予算は18万円 мясо كتاب ไทย 한국어 你好 \U0001f600 \uff1f . ! ; : ,'
)
PARTS = [*WORDS.split(" "), "\u2028", "\r", "\n\n", "\n- ", "\nSaid by the user, word for word:\n- "]
TOOLS = ToolRegistry([])
LIMIT = 4096


class Talk:
    """A talk that is broken in every way, and a model that answers anything."""

    endpoint = "http://model"

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked = 0

    def text(self, most: int = 40) -> str:
        return self.random.choice([" ", "", " "]).join(self.random.choices(PARTS, k=self.random.randint(1, most)))

    def turns(self) -> list[Json]:
        """Some messages: calls without results, results without calls, ids that come twice, empty ones, long ones."""
        made: list[Json] = []
        for number in range(self.random.randint(0, 6)):
            match self.random.randint(0, 4):
                case 0 | 1:
                    made.append({"role": "user", "content": self.text(4000 if self.random.random() < 0.05 else 40)})
                case 2:
                    made.append({"role": "assistant", "content": self.random.choice(["", self.text(300)])})
                case 3:
                    call_id = self.random.choice([f"c{number}-{self.random.random()}", "twice"])
                    function = {"name": "fetch", "arguments": self.random.choice(["{}", self.text(5)])}
                    call = {"id": call_id, "type": "function", "function": function}
                    made.append({"role": "assistant", "content": None, "tool_calls": [call]})
                    if self.random.random() < 0.8:
                        made.append({"role": "tool", "tool_call_id": call_id, "content": self.text(500)})
                case _:
                    made.append({"role": "tool", "tool_call_id": "nobody's", "content": self.text()})
        return made

    async def complete(self, messages: Any, **_: object) -> str:
        self.asked = count_messages(messages)
        words = str(messages[-1]["content"]).split()
        kind = self.random.randint(0, 9)
        if kind == 0:
            raise TimeoutError
        some = [" ".join(words[at : at + 20]) for at in self.random.choices(range(len(words)), k=8)]
        if kind < 4:
            return (CutText if kind == 1 else str)(" ".join(some))
        kinds = ["fact", "goal", "decision", "question", "result", "quote", "summary"]
        notes = [
            {"source": self.random.randint(-1, 30), "kind": self.random.choice(kinds), "text": text,
             "replaces": [self.random.randint(0, 30)]}
            for text in some
        ]  # fmt: skip
        answer = json.dumps({"notes": notes})
        return CutText(answer[: self.random.randint(1, len(answer))]) if kind == 4 else answer


def assert_sound(messages: list[Json], last: str) -> None:
    assert count_messages(messages) + count_tokens(TOOLS.schema_text) <= LIMIT
    assert repair(messages) == messages
    assert [one for one in messages if one["role"] == "user"][-1]["content"] == last


def assert_small(summary: str, notes: list[Json]) -> None:
    assert count_tokens(summary) <= SUMMARY_TOKENS and "</memory>" not in summary
    kept = Notes.from_state(notes, summary)
    assert kept.render() == summary
    quotes = [note for note in kept.items if note.kind == "quote"]
    assert sum(count_tokens(note.text) for note in quotes) <= QUOTE_TOKENS
    assert all(len(note.text) <= QUOTE_CHARS and note.role == "user" for note in quotes)
    assert all(len(note.text.splitlines()) == 1 for note in kept.items if note.kind != "summary")
    assert summary.splitlines().count("Said by the user, word for word:") == bool(quotes)


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_is_pair_valid_fits_and_keeps_the_last_message_and_no_summary_grows(seed: int) -> None:
    talk = Talk(seed)
    compactor = Compactor(talk, CompactionConfig(200, 4, 2, 5.0, LIMIT))
    messages: list[Json] = []
    summary, folds = "", 0
    notes: list[Json] | None = None
    for turn in range(25):
        if (folded := compactor.take("talk", messages)) is not None:
            before: list[ChatMessage] = [*messages, {"role": "system", "content": summary}]
            messages, summary, notes = folded.remaining, folded.summary, json.loads(json.dumps(folded.notes))
            assert count_messages([*messages, {"role": "system", "content": summary}]) < count_messages(before)
            assert_small(summary, folded.notes)
            folds += 1
        last = f"{turn} {talk.text()}"
        messages += [*talk.turns(), {"role": "user", "content": last, "run": f"run-{turn}"}]
        assert_sound(build_prompt(messages, summary=summary, tools=TOOLS, limit=LIMIT).messages, last)
        messages.append({"role": "assistant", "content": "Very well. " + talk.text()})
        compactor.start("talk", messages, summary, notes, wished=True)
        await compactor.settle("talk")
        assert talk.asked <= LIMIT
    assert folds > 0
