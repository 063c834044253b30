"""Talks with a real language model. It is far too small to be clever, so only shapes are asserted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real_model.local_model import MOST_TOKENS, LocalModel
from tests.real_model.serve import CONTEXT
from tests.support.client import Client, Json
from tests.support.polling import wait_until
from tests.support.server import ButlerServer
from tests.support.sse import Event, EventStream

pytestmark = pytest.mark.real_model

LONG = "Write a long poem about the sea, with forty lines."
MakeReal = Callable[..., ButlerServer]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalModel]:
    """One model process for all tests; a test that harms it makes it whole again."""
    model = LocalModel(tmp_path_factory.mktemp("model"))
    model.start()
    yield model
    model.kill()


@pytest.fixture(scope="module")
def make_real(smollm2: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeReal]:
    """Makes started servers on the real model; keywords are environment variables."""
    made: list[ButlerServer] = []

    def make(**env: str) -> ButlerServer:
        own = {"BUTLER_MODEL": "smollm2", "BUTLER_CONTEXT_LIMIT": str(CONTEXT), "BUTLER_MODEL_TIMEOUT": "300"}
        made.append(ButlerServer(tmp_path_factory.mktemp("butler"), smollm2.url, own | env))
        return made[-1].start()

    yield make
    for server in made:
        server.close()


@pytest.fixture(scope="module")
def house(make_real: MakeReal) -> ButlerServer:
    """The server that most tests share."""
    return make_real()


@pytest.fixture
def talk(house: ButlerServer) -> Client:
    """The owner at the shared server."""
    return house.client()


def say(client: Client, text: str, thread_id: str | None = None) -> tuple[Json, EventStream]:
    """One streamed turn to its end: the Outcome, and the stream with what came before."""
    body = {"message": text} | ({"thread_id": thread_id} if thread_id else {})
    with client.stream("POST", "/chat", body) as stream:
        outcome = stream.rest()[-1].data
    assert stream.kinds()[0] == "run"
    assert stream.kinds()[-1] == "end"
    assert stream.kinds().count("end") == 1
    return outcome, stream


def tokens(stream: EventStream, count: int) -> Event:
    """Read so many tokens; gives the last."""
    for _ in range(count - 1):
        stream.until("token")
    return stream.until("token")


def test_an_answer_comes_token_by_token_while_the_model_writes(talk: Client) -> None:
    with talk.stream("POST", "/chat", {"message": LONG}) as stream:
        run_id = stream.until("run").data["run_id"]
        tokens(stream, 3)
        assert talk.get(f"/runs/{run_id}")["status"] == "running"
        outcome = stream.rest()[-1].data
    assert outcome["status"] == "done"
    assert stream.text() == outcome["reply"]
    assert stream.kinds().count("token") > 10
    assert outcome["usage"]["model_calls"] == 1
    assert 10 < outcome["usage"]["output_tokens"] <= MOST_TOKENS
    assert talk.transcript(outcome["thread_id"]) == [("user", LONG), ("assistant", outcome["reply"])]


def test_a_stopped_answer_stops_the_model_and_the_next_turn_works(talk: Client, smollm2: LocalModel) -> None:
    with talk.stream("POST", "/chat", {"message": LONG}) as stream:
        run = stream.until("run").data
        tokens(stream, 3)
        assert not smollm2.idle()
        assert talk.post(f"/runs/{run['run_id']}/cancel", {}).status_code == 202
        outcome = stream.rest()[-1].data
    assert outcome["status"] == "cancelled"
    assert outcome["reply"] == stream.text()
    wait_until(smollm2.idle, "the model has stopped writing")
    assert stream.kinds().count("token") < MOST_TOKENS
    again, _ = say(talk, "Say hello.", run["thread_id"])
    assert again["status"] == "done" and again["reply"]


def test_a_stop_before_the_first_token_of_a_long_prompt_stops_the_model(talk: Client, smollm2: LocalModel) -> None:
    with talk.stream("POST", "/chat", {"message": "The sea is deep. " * 600}) as stream:
        run = stream.until("run").data
        wait_until(lambda: not smollm2.idle(), "the model reads the prompt", 60)
        talk.post(f"/runs/{run['run_id']}/cancel", {})
        assert stream.rest()[-1].data["status"] == "cancelled"
    wait_until(smollm2.idle, "the model has stopped reading", 60)
    assert talk.get(f"/threads/{run['thread_id']}")["status"] == "idle"


def test_a_slow_first_token_is_bridged_by_keep_alive_comments(talk: Client, smollm2: LocalModel) -> None:
    smollm2.freeze()
    try:
        with talk.stream("POST", "/chat", {"message": "Say hello."}) as stream, ThreadPoolExecutor(1) as pool:

            def thaw_after_a_comment() -> None:
                try:
                    wait_until(lambda: stream.comments, "a keep-alive comment", 20)
                finally:
                    smollm2.thaw()

            waiting = pool.submit(thaw_after_a_comment)
            outcome = stream.rest()[-1].data
            waiting.result()
    finally:
        smollm2.thaw()
    assert outcome["status"] == "done"
    assert stream.text() == outcome["reply"] != ""


def test_a_model_slower_than_the_time_out_fails_in_words_and_the_next_turn_works(
    make_real: MakeReal, smollm2: LocalModel
) -> None:
    client = make_real(BUTLER_MODEL_TIMEOUT="5").client()
    smollm2.freeze()
    try:
        outcome, stream = say(client, "Say hello.")
    finally:
        smollm2.thaw()
    assert outcome["status"] == "failed"
    assert outcome["error"]["code"] == "model_unavailable"
    assert "BUTLER_MODEL_TIMEOUT" in outcome["error"]["detail"]
    assert stream.text() == outcome["reply"]
    wait_until(smollm2.idle, "the model has dropped what nobody waits for", 60)
    assert say(client, "Say hello.", outcome["thread_id"])[0]["status"] == "done"


def test_a_client_that_goes_away_cancels_nothing_and_can_join_again(talk: Client) -> None:
    with talk.stream("POST", "/chat", {"message": LONG}) as stream:
        run_id = stream.until("run").data["run_id"]
        last = tokens(stream, 3)
    with talk.stream("GET", f"/runs/{run_id}/events", **{"Last-Event-ID": last.id}) as joined:
        outcome = joined.rest()[-1].data
    assert outcome["status"] == "done"
    assert stream.text() + joined.text() == outcome["reply"]
    assert talk.get(f"/runs/{run_id}") == outcome


def test_commands_and_approvals_between_turns_leave_the_talk_whole(house: ButlerServer, talk: Client) -> None:
    first, _ = say(talk, "My name is Ann.")
    thread_id = first["thread_id"]
    parked, _ = say(talk, '/append_line text="Buy milk"', thread_id)
    assert parked["status"] == "parked"
    queued = talk.chat("What did I ask for?", thread_id)
    assert queued["status"] == "queued"
    approved, _ = say(talk, f"/approve {parked['approvals'][0]['code']}", thread_id)
    assert approved["status"] == "done"
    assert talk.when_run(queued["run_id"], "done", seconds=60)["reply"]
    denied, _ = say(talk, '/append_line text="Call Bob"', thread_id)
    say(talk, f"/deny {denied['approvals'][0]['code']} not now", thread_id)
    last, _ = say(talk, "Thank you.", thread_id)
    assert last["status"] == "done" and last["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert [text for _, text in house.workshop.effects()] == ["Buy milk"]
    said = [text for role, text in talk.transcript(thread_id) if role == "user"]
    assert said[0] == "My name is Ann." and said[-1] == "Thank you." and len(said) == 7


def test_a_model_that_ignores_the_tools_only_talks(house: ButlerServer, talk: Client) -> None:
    before = house.workshop.effects()
    outcome, stream = say(talk, "Use the tool note_line to write 'Buy eggs' into my notes.")
    assert outcome["status"] == "done" and outcome["reply"]
    assert "tool" not in stream.kinds()
    assert house.workshop.effects() == before


def test_a_model_that_dies_in_mid_answer_fails_the_turn_and_may_come_back(talk: Client, smollm2: LocalModel) -> None:
    with talk.stream("POST", "/chat", {"message": LONG}) as stream:
        tokens(stream, 3)
        smollm2.kill()
        outcome = stream.rest()[-1].data
    try:
        assert outcome["status"] == "failed"
        assert outcome["error"]["code"] == "model_unavailable"
        assert outcome["reply"] == stream.text()
        down, _ = say(talk, "Are you there?", outcome["thread_id"])
        assert down["error"]["code"] == "model_unavailable"
    finally:
        smollm2.start()
    assert say(talk, "Say hello.", outcome["thread_id"])[0]["status"] == "done"


def test_an_answer_is_finished_after_a_crash_of_butler(make_real: MakeReal) -> None:
    server = make_real()
    client = server.client()
    with client.stream("POST", "/chat", {"message": LONG}) as stream:
        run = stream.until("run").data
        tokens(stream, 3)
        server.kill()
    server.start()
    outcome = client.when_run(run["run_id"], "done", seconds=120)
    assert client.transcript(run["thread_id"]) == [("user", LONG), ("assistant", outcome["reply"])]


def test_a_talk_beyond_the_folding_threshold_stays_whole_and_shows_no_summary(make_real: MakeReal) -> None:
    client = make_real(
        BUTLER_CONTEXT_COMPACTION_TRIGGER_MESSAGES="8", BUTLER_CONTEXT_COMPACTION_RECENT_WINDOW="4"
    ).client()
    thread_id, spoken = None, []
    for thing in ("ship", "cat", "river", "king", "winter", "fruit"):
        outcome, stream = say(client, f"What is a {thing}?", thread_id)
        assert outcome["status"] == "done"
        assert stream.text() == outcome["reply"]
        thread_id = outcome["thread_id"]
        spoken += [("user", f"What is a {thing}?"), ("assistant", outcome["reply"])]
    assert thread_id is not None
    assert client.transcript(thread_id) == spoken
