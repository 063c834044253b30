"""Ten facts in a talk of thirty messages, folded once, three and ten times through the real nodes (C2, C4)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from butler.errors import ModelFailed
from butler.memory.compaction import CompactionConfig, Compactor
from butler.memory.notes import SUMMARY_TOKENS
from butler.memory.tokens import count_messages, count_tokens
from butler.types import ChatMessage, Json
from tests.support.headless import Brain, Line, open_brain, says
from tests.support.talks import TALKS, Fact, Talk

NUMBERED = re.compile(r"^\[(\d+)\] user: (.*)$", re.MULTILINE)
LAST_WORDS = {"English": "Thanks, that is all.", "Chinese": "谢谢,就这些。", "Japanese": "ありがとう、以上です。"}
Way = Literal["notes", "text", "broken", "few notes", "short text"]


class Scribe:
    """A scripted model that notes exactly the planted facts of what it is shown, in the form of `way`."""

    endpoint = "scribe"

    def __init__(self, talk: Talk, way: Way) -> None:
        self._talk = talk
        self._way = way
        self.asked: list[str] = []

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: Literal["compaction"],
        timeout: float,  # noqa: ASYNC109 - as in the protocol
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Answer as the way says."""
        shown = str(messages[-1]["content"])
        self.asked.append(shown)
        if self._way == "broken":
            raise ModelFailed("It is down.")
        found = [(int(number), fact) for number, text in NUMBERED.findall(shown) for fact in self._facts(text)]
        if self._way == "few notes" and found:
            found = found[:1]
            return json.dumps({"notes": [{"source": found[0][0], "kind": "fact", "text": found[0][1].note}]})
        if self._way == "notes":
            # Half of the citations are wrong, and something is made up.
            notes = [
                {"source": number if number % 4 else 1, "kind": "fact", "text": fact.note} for number, fact in found
            ]
            notes += [
                {"source": int(number), "kind": "fact", "text": text} for number, text in NUMBERED.findall(shown)
            ][: 0 if notes else 1]
            notes.append({"source": 1, "kind": "fact", "text": "The user is 28 years old and lives in Hamburg."})
            return json.dumps({"notes": notes})
        so_far = shown.partition("Talk:")[0].removeprefix("Summary so far:\n").strip()
        if self._way == "short text":
            found = found[:1]
        return "\n".join([so_far, *(fact.note for _, fact in found)]).strip() or LAST_WORDS[self._talk.language]

    def _facts(self, text: str) -> list[Fact]:
        return [fact for fact in self._talk.facts if self._talk.told[fact.number - 1] == text]


async def told(brain: Brain, talk: Talk, compactor: Compactor) -> Json:
    """Hold the whole talk and two turns more; every fold is let finish before the next turn."""
    state: Json = {}
    for text in (*talk.told[::2], LAST_WORDS[talk.language], LAST_WORDS[talk.language]):
        state = await brain.say(text)
        await compactor.settle("thread")
    return state


def lines(talk: Talk) -> list[Line]:
    return [*map(says, talk.told[1::2]), says(talk.told[-1]), says(talk.told[-1])]


@pytest.mark.parametrize("folds", [1, 3, 10])
@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.language)
@pytest.mark.parametrize("way", ["notes", "text"])
async def test_all_ten_facts_survive(tmp_path: Path, way: Way, talk: Talk, folds: int) -> None:
    scribe = Scribe(talk, way)
    threshold = {1: 32, 3: 12, 10: 4}[folds]
    compactor = Compactor(scribe, CompactionConfig(10**6, threshold, 2, 30))
    async with open_brain(tmp_path, *lines(talk), compactor=compactor) as brain:
        state = await told(brain, talk, compactor)
        folded = compactor.take("thread", state["messages"])
        summary = folded.summary if folded is not None else state["summary"]
        remaining = folded.remaining if folded is not None else state["messages"]
    assert compactor.counts.folded >= folds and not compactor.counts.refused
    context = summary + "".join(message["content"] for message in remaining)
    assert talk.kept(context) == 10, [fact.note for fact in talk.facts if not fact.kept_in(context)]
    assert count_tokens(summary) <= SUMMARY_TOKENS
    assert "28" not in summary
    if way == "notes":
        notes = [note for note in state["notes"] if "id" in note]
        assert all(note["source"]["run"].startswith("run-") for note in notes)
        by_text = {note["text"]: note["source"]["run"] for note in notes}
        for fact in talk.facts:
            if fact.note in by_text:
                assert by_text[fact.note] == f"run-{fact.number // 2 + 1}"


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.language)
@pytest.mark.parametrize("way", ["few notes", "short text"])
async def test_what_a_careless_model_does_not_note_is_kept_in_the_persons_words(
    tmp_path: Path, way: Way, talk: Talk
) -> None:
    compactor = Compactor(Scribe(talk, way), CompactionConfig(10**6, 12, 2, 30))
    async with open_brain(tmp_path, *lines(talk), compactor=compactor) as brain:
        await told(brain, talk, compactor)
        shown = "".join(str(message["content"]) for message in brain.model.heard[-1])
    assert compactor.counts.folded >= 3
    assert talk.kept(shown) == 10, [fact.note for fact in talk.facts if not fact.kept_in(shown)]


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.language)
async def test_when_the_model_of_the_folds_is_down_every_message_stays(tmp_path: Path, talk: Talk) -> None:
    scribe = Scribe(talk, "broken")
    compactor = Compactor(scribe, CompactionConfig(10**6, 6, 2, 30))
    async with open_brain(tmp_path, *lines(talk), compactor=compactor) as brain:
        state = await told(brain, talk, compactor)
        assert state["ending"]["status"] == "done" and not state.get("summary")
        sent = brain.model.heard[-1]
    assert len(scribe.asked) == 1  # then it backs off
    assert talk.kept("".join(str(message["content"]) for message in sent)) == 10
    assert compactor.counts.refused == {"error": 1}


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.language)
async def test_what_is_sent_stops_growing(tmp_path: Path, talk: Talk) -> None:
    scribe = Scribe(talk, "notes")
    compactor = Compactor(scribe, CompactionConfig(10**6, 6, 2, 30))
    async with open_brain(tmp_path, *lines(talk), compactor=compactor) as brain:
        await told(brain, talk, compactor)
        sizes = [count_messages(request[1:]) for request in brain.model.heard]
        heads = [count_tokens(str(request[0]["content"])) for request in brain.model.heard]
    assert max(sizes[3:]) <= 2 * max(sizes[:3])
    assert heads[-1] - heads[0] < SUMMARY_TOKENS + 100
