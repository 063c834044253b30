"""Text that comes in pieces is masked like the whole, wherever a secret is cut; nothing else waits."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from butler.errors import ModelFailed
from butler.redact import Redactor
from butler.redact_stream import StreamRedactor
from butler.types import ModelReply
from tests.support.headless import open_brain, says

SECRET = "hunter2-hunter2"
# Few letters, so that secrets overlap, contain each other and begin within each other.
SECRETS = st.lists(st.text("ab1", min_size=6, max_size=9), max_size=3)
TEXTS = st.text("ab1 ", max_size=40)


def streamed(redactor: Redactor, *pieces: str) -> list[str]:
    """What is shown after each piece, and at the end."""
    masking = StreamRedactor(redactor)
    return [*(masking.feed(piece) for piece in pieces), masking.rest()]


@given(SECRETS, TEXTS, st.lists(st.integers(0, 40), max_size=8))
@example(["ababab", "abababab"], "xabababa", [3, 6, 8])
@example(["aaaaab", "aaaaaaa1"], "aaaaaaab", [1, 2, 5])
def test_any_split_of_any_text_gives_the_masked_whole(secrets: list[str], text: str, cuts: list[int]) -> None:
    redactor, places = Redactor(secrets), sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    masking, shown = StreamRedactor(redactor), ""
    for start, end in pairwise(places):
        shown += masking.feed(text[start:end])
        assert masking.waiting <= redactor.longest - 1
    assert shown + masking.rest() == redactor.text(text)


@given(st.text(min_size=6, max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_a_secret_of_any_characters_that_comes_letter_by_letter_is_masked(secret: str, before: str, after: str) -> None:
    redactor, text = Redactor([secret]), before + secret.strip() + after
    assert "".join(streamed(redactor, *text)) == redactor.text(text)


def test_what_can_be_no_secret_is_shown_at_once_and_what_may_be_one_waits() -> None:
    assert streamed(Redactor([SECRET]), "good ", "hun", "ting", " hunter2-", "hunter", "2 end") == [
        "good ", "", "hunting", " ", "", "*** end", ""
    ]  # fmt: skip
    assert streamed(Redactor([SECRET]), "ends with hunter") == ["ends with ", "hunter"]
    assert streamed(Redactor([]), "any", "thing") == ["any", "thing", ""]


@given(SECRETS, st.lists(TEXTS, max_size=5))
def test_what_is_released_while_nothing_comes_is_less_than_a_quarter_of_a_secret(
    secrets: list[str], pieces: list[str]
) -> None:
    redactor, shown = Redactor(secrets), ""
    masking = StreamRedactor(redactor)
    for piece in pieces:
        shown += masking.feed(piece) + masking.release()
    shown += masking.rest()
    assert redactor.text(shown) == shown or "***" in shown
    if "***" not in redactor.text("".join(pieces)):
        assert shown == "".join(pieces)
    for secret in secrets:
        assert secret not in shown


def test_a_pause_shows_the_end_of_a_word_and_not_a_quarter_of_a_secret() -> None:
    masking = StreamRedactor(Redactor([SECRET, "ooooo-secret"]))
    assert (masking.feed("one two"), masking.release(), masking.release(), masking.rest()) == ("one tw", "o", "", "")
    assert (masking.feed("hun"), masking.release(), masking.feed("ter2-hunter2.")) == ("", "hun", "***.")
    assert (masking.feed("hunt"), masking.release(), masking.waiting) == ("", "", 4)
    long = StreamRedactor(Redactor(["s" * 4 + "-" * 96]))
    assert (long.feed("ssss"), long.release(), long.feed("-"), long.release()) == ("", "ssss", "", "")


@given(st.text("ab1", min_size=6, max_size=30), st.text("ab1 ", max_size=9))
def test_pauses_after_every_letter_never_add_up_to_a_secret(secret: str, before: str) -> None:
    masking, shown = StreamRedactor(Redactor([secret])), ""
    for char in before + secret + " ":
        shown += masking.feed(char) + masking.release()
    shown += masking.rest()
    start, _, _ = shown.partition("***")
    # What stands before the mask is what came before the secret, and less than a quarter of a secret of it.
    masked = Redactor([secret]).text(before + secret).partition("***")[0]
    assert start.startswith(masked) and 4 * (len(start) - len(masked)) < len(secret) and len(start) - len(masked) <= 4


async def test_a_model_that_pauses_hides_nothing(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("so"), secrets=["owner-token"]) as brain:
        said, go_on = asyncio.Event(), asyncio.Event()
        speak = brain.model.stream

        async def pausing(*args: Any, **more: Any) -> ModelReply:
            reply = await speak(*args, **more)
            await go_on.wait()
            return reply

        brain.model.stream = pausing  # type: ignore[method-assign]
        brain.events = Noting(said)
        turn = asyncio.create_task(brain.say("tell me"))
        await asyncio.wait_for(said.wait(), 5)
        go_on.set()
        await turn
        assert [one["text"] for one in brain.told("token")] == ["s", "o"]


class Noting(list[Any]):
    """Events; tells when the second token is there."""

    def __init__(self, second: asyncio.Event) -> None:
        super().__init__()
        self._second = second

    def append(self, event: Any) -> None:
        super().append(event)
        if [name for name, _ in self].count("token") == 2:
            self._second.set()


async def test_the_pieces_of_a_turn_are_masked(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("it is hunter2- hunter2 dear"), secrets=[SECRET]) as brain:
        await brain.say("tell me")
        assert "".join(one["text"] for one in brain.told("token")) == "itis***dear"


@pytest.mark.parametrize("partial", ["", "half"])
async def test_an_apology_with_a_secret_in_it_is_masked(tmp_path: Path, partial: str) -> None:
    failure = ModelFailed(f"The endpoint said {SECRET}.", partial=partial)
    async with open_brain(tmp_path, failure, secrets=[SECRET]) as brain:
        await brain.say("tell me")
        assert brain.told("token")[-1]["text"].endswith("The endpoint said ***.")
