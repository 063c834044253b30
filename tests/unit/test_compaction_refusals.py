"""What a refused fold leads to: fewer turns the next time, and a reason in plain words (C3)."""

from __future__ import annotations

from typing import get_args

from butler.memory.checks import IN_PLAIN_WORDS, Reason
from butler.types import CutText
from tests.unit.test_compaction import GOOD, THREAD, compactor, talk


async def test_after_a_text_that_was_cut_fewer_turns_are_folded() -> None:
    subject, model = compactor(CutText("Ann wants a red"), CutText("Ann wants a red"), GOOD, request_tokens=6000)
    history, sizes = talk(60), list[int]()
    for _ in range(3):
        assert subject.start(THREAD, history, "", wished=True)
        await subject.settle(THREAD)
        sizes.append(model.asked[-1]["messages"][-1]["content"].count("user:"))
    assert sizes[0] > sizes[1] > 0 and sizes[2] <= sizes[1]
    assert subject.counts.refused == {"cut": 2} and subject.take(THREAD, history) is not None


async def test_a_refused_fold_says_why_in_plain_words() -> None:
    subject, _ = compactor("I'm sorry, I can't.", TimeoutError(), GOOD)
    assert subject.why_not(THREAD) == ""
    for words in ("an apology", "took too long", ""):
        subject.start(THREAD, talk(6), "", wished=True)
        assert await subject.settle(THREAD) is (not words)
        assert words in subject.why_not(THREAD) and bool(words) == bool(subject.why_not(THREAD))
    assert set(IN_PLAIN_WORDS) == set(get_args(Reason))
