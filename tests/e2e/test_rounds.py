"""The turn is a bounded loop: tool rounds are counted over the whole turn, parks included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.orders import approve, call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

ROUNDS = 3


@pytest.fixture(scope="module")
def bounded(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ButlerServer]:
    home: Path = tmp_path_factory.mktemp("bounded")
    server = ButlerServer(home, shared_model.url, {"BUTLER_MAX_TOOL_ROUNDS": str(ROUNDS)})
    yield server.start()
    server.close()


@pytest.fixture
def asker(bounded: ButlerServer, model: ScriptedModel) -> Client:
    return bounded.client()


def test_a_model_that_never_stops_is_stopped_at_the_bound(bounded: ButlerServer, asker: Client) -> None:
    text = fresh()
    with asker.stream("POST", "/chat", {"message": f"[[rounds 0]] {call('note_line', text)}"}) as stream:
        events = stream.rest()
    outcome = events[-1].data
    assert outcome["status"] == "done"
    assert outcome["error"] is None
    assert outcome["reply"]
    assert any(event.event == "notice" for event in events)
    assert len(bounded.workshop.effects(text)) == ROUNDS


def test_as_many_rounds_as_the_bound_are_no_fault(bounded: ButlerServer, asker: Client) -> None:
    text = fresh()
    message = f"[[rounds {ROUNDS}]] {call('note_line', text)} [[then]] [[say finished]]"
    outcome = asker.chat(message)
    assert (outcome["status"], outcome["reply"]) == ("done", "finished")
    assert len(bounded.workshop.effects(text)) == ROUNDS


def test_the_text_before_the_bound_is_kept(bounded: ButlerServer, asker: Client) -> None:
    outcome = asker.chat(f"[[rounds 0]] [[say still at it]] {call('note_line', fresh())}")
    assert outcome["status"] == "done"
    assert "still at it" in outcome["reply"]


def test_rounds_count_across_parks(bounded: ButlerServer, asker: Client, model: ScriptedModel) -> None:
    text = fresh()
    outcome = asker.chat(f"[[rounds 0]] {call('append_line', text)}")
    parks = 0
    while outcome["status"] == "parked":
        parks += 1
        assert parks <= ROUNDS
        outcome = asker.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    assert outcome["status"] == "done"
    assert parks == ROUNDS
    assert len(bounded.workshop.effects(text)) == ROUNDS


def test_after_the_bound_the_next_turn_works_and_counts_anew(bounded: ButlerServer, asker: Client) -> None:
    thread = asker.chat(f"[[rounds 0]] {call('note_line', fresh())}")["thread_id"]
    text = fresh()
    outcome = asker.chat(f"[[rounds 2]] {call('note_line', text)} [[then]] [[say fine]]", thread)
    assert (outcome["status"], outcome["reply"]) == ("done", "fine")
    assert len(bounded.workshop.effects(text)) == 2
