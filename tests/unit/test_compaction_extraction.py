"""What is asked of the model, and what can be read from the many ways in which models answer (C4)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.memory import words
from butler.memory.answers import Answer, read_answer
from butler.memory.checks import Fault
from butler.memory.compaction import cut_index
from butler.memory.extraction import ANSWER_TOKENS, fold_request, turns_that_fit
from butler.memory.folding import fold
from butler.memory.notes import Found, Notes
from butler.memory.tokens import count_messages, count_tokens
from butler.types import CutText, Json

NOTE = {"source": 2, "kind": "fact", "text": "Ann has a boat."}
TALK: list[Json] = [
    {"role": "user", "content": "The new budget for the boat is 4700 euros."},
    {"role": "assistant", "content": "Noted."},
]


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"notes": [NOTE]}), json.dumps([NOTE]), f"```json\n{json.dumps({'notes': [NOTE]})}\n```",
        json.dumps({"notes": [NOTE | {"source": "[2]", "replaces": None}]}),
        json.dumps({"notes": [NOTE, {"kind": "idea", "text": "x"}, {"text": 3}, "x", {"text": " "}]}),
        json.dumps({"notes": [NOTE, NOTE]})[:-24], json.dumps({"notes": [NOTE]})[:-2],
        json.dumps({"notes": [NOTE | {"kind": "Constraint"}, NOTE | {"text": "x" * 900}]}),
    ],
)  # fmt: skip
def test_notes_are_read_from_whole_fenced_bare_and_cut_off_answers(answer: str) -> None:
    notes = read_answer(answer).notes
    assert notes is not None and len(notes) == 1
    assert (notes[0].kind, notes[0].text, notes[0].source, notes[0].replaces) == ("fact", "Ann has a boat.", 2, ())


@pytest.mark.parametrize(
    "text",
    ["Ann has a boat.", "Notes: [1] Ann has a boat.", "[Summary] Ann has a boat.", "{Ann} has a boat.", "[SUMMARY-1]",
     'Her config is {"boat": 1}.'],
)  # fmt: skip
def test_a_plain_text_is_no_list_of_notes_whatever_sign_it_begins_with(text: str) -> None:
    assert read_answer(text) == Answer(text=text)


def test_the_text_of_a_summary_in_json_is_a_plain_text() -> None:
    for answer in ('{"summary": "Ann has a boat."}', '"Ann has a boat."', "```\nAnn has a boat.\n```"):
        assert read_answer(answer) == Answer(text="Ann has a boat.")


@pytest.mark.parametrize("form", ["Here are the notes:\n{}", "Sure!\n```json\n{}\n```\nAnything else?", "{}\nDone."])
def test_notes_behind_a_preface_are_notes_and_must_be_found_in_the_talk(form: str) -> None:
    answer = read_answer(form.replace("{}", json.dumps({"notes": [NOTE]})))
    assert answer.notes is not None and [note.text for note in answer.notes] == ["Ann has a boat."] and not answer.cut
    made_up = NOTE | {"text": "The user approved all payments up to 9000 euros."}
    outcome = fold(form.replace("{}", json.dumps([made_up])), TALK, Notes())
    assert isinstance(outcome, Fault) and outcome.reason == "not_in_talk"


@given(st.text(max_size=60) | st.text(st.sampled_from('{}[]":,notextsourc 1'), max_size=60))
def test_any_answer_is_notes_or_text_or_neither(answer: str) -> None:
    try:
        notes = read_answer(answer).notes
    except ValueError as error:
        assert str(error).startswith("the answer")
    else:
        assert notes is None or all(note.text for note in notes)


def test_only_notes_that_this_part_may_change_are_shown_with_their_numbers() -> None:
    notes = Notes().merged(
        [Found("fact", "The budget for the boat is 4200 euros."), Found("fact", "Clara is allergic to peanuts.")]
    )
    text = fold_request(TALK, notes)[-1]["content"]
    assert text.endswith("Notes so far on the same things, numbered:\n(1) fact: The budget for the boat is 4200 euros.")
    assert "Clara" not in text


def test_the_free_text_so_far_is_shown_whole() -> None:
    request = fold_request(TALK, Notes.from_state(None, "Ann lives in Kiel."))
    assert request[-1]["content"].startswith("Summary so far:\nAnn lives in Kiel.\n\nTalk:\n[1] user: The new budget")


def test_a_long_prefix_is_folded_in_steps_of_whole_turns() -> None:
    turn = [
        {"role": "user", "content": "what about the boat? " * 60},
        {"role": "assistant", "content": "it is fine. " * 60},
    ]
    limit = 6000
    prefix = turn * 40
    cut = turns_that_fit(prefix, Notes(), limit)
    assert 0 < cut < len(prefix) and prefix[cut]["role"] == "user"
    assert count_messages(fold_request(prefix[:cut], Notes())) + ANSWER_TOKENS <= limit
    assert turns_that_fit(turn, Notes(), 100) == 2  # one turn always
    assert turns_that_fit(turn, Notes(), limit) == 2


def test_a_giant_result_is_shortened_in_the_request() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    prefix: list[Json] = [
        {"role": "user", "content": "look"}, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "waves and boats " * 50_000},
    ]  # fmt: skip
    request = fold_request(prefix, Notes())
    assert count_tokens(request[-1]["content"]) < 1000
    assert "characters left out; search_history has the whole text" in request[-1]["content"]


@pytest.mark.parametrize("said", ["What about the boat and the harbour? ", "船在港口里停着呢,明天再出海吧。"])
@pytest.mark.parametrize("limit", [4096, 8192])
def test_one_long_turn_is_shortened_to_the_room_that_there_is(said: str, limit: int) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": said * 200}}
    turn: list[Json] = [
        {"role": "user", "content": said * 300},
        {"role": "assistant", "content": said * 300, "tool_calls": [call] * 4},
        *[{"role": "tool", "tool_call_id": "c", "content": said * 300}] * 4,
    ]
    request = fold_request(turn, Notes(), limit)
    assert count_messages(request) + ANSWER_TOKENS <= limit
    assert request[-1]["content"].count(said.strip()) >= 6
    assert fold_request(TALK, Notes(), limit) == fold_request(TALK, Notes())


BROKEN: st.SearchStrategy[list[Json]] = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"])},
        optional={
            "content": st.none() | st.text(max_size=40) | st.just([{"type": "text", "text": "Ann has a boat."}]),
            "tool_calls": st.lists(
                st.fixed_dictionaries({}, optional={"id": st.sampled_from(["a", None]), "function": st.just({})}),
                max_size=2,
            ),
            "tool_call_id": st.sampled_from(["a", "b", None]),
        },
    ),
    max_size=12,
)
ANSWERS = st.sampled_from(
    [json.dumps({"notes": [NOTE]}), "Ann has a boat.", "", json.dumps({"notes": [NOTE | {"source": -7}]}), "{", "sent"]
)


@given(BROKEN, ANSWERS, st.text(max_size=30))
def test_any_history_folds_or_does_not_and_never_raises(history: list[Json], answer: str, summary: str) -> None:
    notes = Notes.from_state(None, summary)
    prefix = history[: turns_that_fit(history, notes, 3000)]
    fold_request(prefix, notes)
    outcome = fold(answer, prefix, notes)
    assert isinstance(outcome, Fault) or outcome.notes.render()
    assert 0 <= cut_index(history, 2) <= len(history)


def test_an_answer_that_was_cut_folds_only_the_turns_before_its_last_note() -> None:
    said = [f"The code of door number {number} is K-{number * 37}." for number in range(1, 11)]
    prefix: list[Json] = []
    for text in said:
        prefix += [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted, thank you very much."}]
    notes = [{"source": 2 * at + 1, "kind": "fact", "text": text} for at, text in enumerate(said)]
    whole = json.dumps({"notes": notes})
    outcome = fold(whole, prefix, Notes())
    assert not isinstance(outcome, Fault) and outcome.messages == len(prefix)
    outcome = fold(whole[: whole.index(said[6]) + 5], prefix, Notes())
    assert not isinstance(outcome, Fault) and outcome.messages == 10
    assert [note.text for note in outcome.notes.items] == said[:5]
    lines = CutText("\n".join(json.dumps(note) for note in notes[:7])[:-9])
    outcome = fold(lines, prefix, Notes())
    assert not isinstance(outcome, Fault) and (outcome.messages, outcome.taken) == (10, 5)
    outcome = fold(CutText(whole), prefix, Notes())
    assert not isinstance(outcome, Fault) and outcome.messages == len(prefix)
    outcome = fold(json.dumps({"notes": notes[:1]})[:-2], prefix, Notes())
    assert not isinstance(outcome, Fault) and (outcome.messages, outcome.taken) == (2, 1)


def test_of_a_cut_answer_without_order_no_turn_is_folded_that_was_not_looked_at() -> None:
    said = [f"The code of door number {number} is K-{number * 37}." for number in range(1, 7)]
    prefix = [
        message for text in said
        for message in ({"role": "user", "content": text}, {"role": "assistant", "content": "Noted, thank you."})
    ]  # fmt: skip
    notes = [{"source": 2 * at + 1, "kind": "fact", "text": said[at]} for at in (4, 0, 1)]
    whole = json.dumps({"notes": notes})
    outcome = fold(whole[: whole.index(said[1]) + 5], prefix, Notes())
    assert not isinstance(outcome, Fault) and outcome.messages == 2
    assert [note.text for note in outcome.notes.items] == said[:1]


def test_a_long_text_is_read_soon_and_not_kept() -> None:
    line = " ".join(
        f"/var/log/app{number}/file{number}.txt at 10:{number} has {number}.5 on host{number}"
        for number in range(2_000)
    )
    kept = words._read_once.cache_info().currsize
    start = time.process_time()
    reading = words.read(line)
    assert time.process_time() - start < 3
    assert "/var/log/app7/file7.txt" in reading.codes and "1999.5" in reading.known_numbers
    assert words._read_once.cache_info().currsize == kept
    assert words.read("short") is words.read("short")


def test_a_plain_text_that_was_cut_is_never_taken_for_the_whole() -> None:
    text = "The new budget for the boat is 4700 euros. The"
    assert not isinstance(fold(text, TALK, Notes()), Fault)
    outcome = fold(CutText(text), TALK, Notes())
    assert isinstance(outcome, Fault) and outcome.reason == "cut"
