"""When the model errs: bounded retries, one end, the message kept, and the next turn works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh, park
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler


@pytest.fixture(scope="module")
def server(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ButlerServer]:
    made = ButlerServer(tmp_path_factory.mktemp("errs"), shared_model.url, {"BUTLER_MODEL_TIMEOUT": "2"})
    yield made.start()
    made.close()


@pytest.fixture
def asker(server: ButlerServer, model: ScriptedModel) -> Client:
    return server.client()


def check_failed(asker: Client, outcome: Json, message: str) -> None:
    """The turn failed in one named way; the message is kept and the next turn works."""
    assert outcome["status"] == "failed", outcome
    assert outcome["error"]["code"] == "model_unavailable"
    assert outcome["error"]["detail"]
    assert "Traceback" not in str(outcome)
    assert asker.transcript(outcome["thread_id"])[0] == ("user", message)
    assert asker.get(f"/threads/{outcome['thread_id']}")["status"] == "idle"
    assert asker.chat(fresh(), outcome["thread_id"])["status"] == "done"


@pytest.mark.parametrize("fault", ["status 429 1 0", "status 500 1", "status 503 1", "cut 0 1", "error 0 1"])
def test_a_passing_fault_before_the_first_token_is_retried(asker: Client, model: ScriptedModel, fault: str) -> None:
    message = f"[[{fault}]] [[say all is well]] {fresh()}"
    outcome = asker.chat(message)
    assert (outcome["status"], outcome["reply"]) == ("done", "all is well")
    assert len(model.requests(message)) == 2


@pytest.mark.parametrize("fault", ["status 401", "status 400", "status 404"])
def test_a_fault_of_the_request_is_not_retried(asker: Client, model: ScriptedModel, fault: str) -> None:
    message = f"[[{fault}]] {fresh()}"
    outcome = asker.chat(message)
    assert len(model.requests(message)) == 1
    check_failed(asker, outcome, message)


@pytest.mark.parametrize("fault", ["status 429 9999 0", "status 500", "cut 0", "error 0"])
def test_a_lasting_fault_ends_the_turn_after_a_few_tries(asker: Client, model: ScriptedModel, fault: str) -> None:
    message = f"[[{fault}]] {fresh()}"
    outcome = asker.chat(message)
    assert 2 <= len(model.requests(message)) <= 6
    check_failed(asker, outcome, message)


@pytest.mark.parametrize("fault", ["cut 3", "error 3"])
def test_after_the_first_token_nothing_is_retried(asker: Client, model: ScriptedModel, fault: str) -> None:
    message = f"[[{fault}]] [[say one two three four]] {fresh()}"
    with asker.stream("POST", "/chat", {"message": message}) as stream:
        events = stream.rest()
    assert len(model.requests(message)) == 1
    assert stream.kinds().count("end") == 1
    assert stream.text().startswith("one two three")
    check_failed(asker, events[-1].data, message)


def test_a_model_that_never_answers_is_given_up(asker: Client, model: ScriptedModel) -> None:
    message = f"[[hang]] {fresh()}"
    with asker.stream("POST", "/chat", {"message": message}) as stream:
        events = stream.rest()
    assert len(model.requests(message)) == 2
    notices = [event.data["text"] for event in events if event.event == "notice"]
    assert notices == ["The model has been silent for 2 s; asking it once more."]
    check_failed(asker, events[-1].data, message)


def test_a_model_that_stops_in_the_middle_is_given_up(asker: Client, model: ScriptedModel) -> None:
    gate = fresh("never")
    message = f"[[hold {gate} 2]] [[say one two three]]"
    outcome = asker.chat(message)
    assert len(model.requests(message)) == 1
    check_failed(asker, outcome, message)


def test_an_answer_that_is_no_stream_ends_the_turn_in_a_named_way(asker: Client) -> None:
    message = f"[[json]] [[say not a stream]] {fresh()}"
    outcome = asker.chat(message)
    if outcome["status"] == "done":
        assert outcome["reply"] == "not a stream"
    else:
        check_failed(asker, outcome, message)


def test_a_fault_after_a_tool_ran_keeps_its_result_for_the_next_turn(
    server: ButlerServer, asker: Client, model: ScriptedModel
) -> None:
    text = fresh()
    message = f"{call('note_line', text)} [[then]] [[status 401]]"
    check_failed(asker, asker.chat(message), message)
    assert len(server.workshop.effects(text)) == 1
    assert any(f"wrote {text}" in str(m) for m in model.requests()[-1]["body"]["messages"])


def test_a_fault_after_an_approval_keeps_the_history_sound(
    server: ButlerServer, asker: Client, model: ScriptedModel
) -> None:
    text = fresh()
    parked = park(asker, text)
    model.reply(marker=text, status=401)
    outcome = asker.decided(parked["thread_id"], approve(parked["approvals"][0]))
    check_failed(asker, outcome, call("append_line", text))
    assert len(server.workshop.effects(text)) == 1


def test_a_failed_turn_holds_up_no_queued_message(asker: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    started = asker.chat(f"[[hold {gate}]] [[status 401]]", wait=False)
    text = fresh()
    queued = asker.chat(text, started["thread_id"])
    model.release(gate)
    asker.when_run(started["run_id"], "failed")
    assert asker.when_run(queued["run_id"], "done")["reply"].startswith(f"You said: {text}")


def test_nobody_listening_at_the_models_address_is_a_named_failure(make_butler: MakeButler) -> None:
    server = make_butler(BUTLER_BASE_URL="http://127.0.0.1:9/v1").start()
    outcome = server.client().chat("hello")
    assert (outcome["status"], outcome["error"]["code"]) == ("failed", "model_unavailable")


def test_the_fallback_model_answers_when_the_first_cannot(make_butler: MakeButler, model: ScriptedModel) -> None:
    asker = make_butler(BUTLER_FALLBACK_MODEL="spare").start().client()
    model.reply(model="scripted", status=500, times=0)
    marker = fresh()
    outcome = asker.chat(marker)
    assert outcome["status"] == "done"
    assert outcome["reply"].startswith(f"You said: {marker}")
    assert [entry["body"]["model"] for entry in model.requests(marker)][-1] == "spare"
    text = fresh()
    parked = park(asker, text)
    assert asker.decided(parked["thread_id"], approve(parked["approvals"][0]))["status"] == "done"


def heard(model: ScriptedModel) -> list[tuple[str, str]]:
    """What the model was given to read in the newest request, without the system prompt."""
    return [(m["role"], m["content"]) for m in model.requests()[-1]["body"]["messages"][1:]]


def test_the_model_never_reads_an_apology_as_its_own_words(asker: Client, model: ScriptedModel) -> None:
    first, second, third = f"[[status 401]] {fresh()}", f"[[cut 3]] [[say one two three four]] {fresh()}", fresh()
    thread_id = asker.chat(first)["thread_id"]
    asker.chat(second, thread_id)
    asker.chat(third, thread_id)
    unanswered = "[No answer was given: the model was unavailable.]"
    assert heard(model) == [
        ("user", first), ("assistant", unanswered), ("user", second), ("assistant", "one two three"), ("user", third),
    ]  # fmt: skip
    shown = [text for role, text in asker.transcript(thread_id) if role == "assistant"]
    assert shown[0].startswith("I'm sorry, I could not finish this: The model endpoint refused the token")
    assert shown[1].startswith("one two three\n\nI'm sorry, I could not finish this: ")
    assert unanswered not in str(shown)


def test_a_failed_command_is_told_in_the_transcript_and_not_to_the_model(asker: Client, model: ScriptedModel) -> None:
    failed = asker.chat("/no_such_tool x=1")
    asker.chat(fresh(), failed["thread_id"])
    assert failed["reply"] and failed["reply"] in str(asker.transcript(failed["thread_id"]))
    assert ("assistant", "[This command could not be run.]") in heard(model)
    assert failed["reply"] not in str(heard(model))


def test_a_cancelled_turn_leaves_the_model_only_its_own_words(asker: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    started = asker.chat(f"[[hold {gate} 2]] [[say one two three]]", wait=False)
    with asker.stream("GET", f"/runs/{started['run_id']}/events") as stream:
        stream.until("token")
        asker.post(f"/runs/{started['run_id']}/cancel", {})
    asker.when_run(started["run_id"], "cancelled")
    model.release(gate)
    asker.chat(fresh(), started["thread_id"])
    assert heard(model)[1][1].startswith("one") and "cancelled" not in str(heard(model))
    assert "(The turn was cancelled by a person.)" in str(asker.transcript(started["thread_id"]))


def test_an_answer_that_was_cut_says_so_and_can_go_on(asker: Client, model: ScriptedModel) -> None:
    text = fresh()
    model.reply(marker=text, text="once upon", finish="length")
    with asker.stream("POST", "/chat", {"message": text}) as stream:
        end = stream.rest()[-1].data
    assert end["status"] == "done" and end["reply"] == stream.text()
    assert end["reply"].startswith("once upon\n\n(The answer was cut") and "notice" in stream.kinds()
    assert asker.transcript(end["thread_id"])[1] == ("assistant", end["reply"])
    asker.chat(fresh(), end["thread_id"])
    assert heard(model)[1] == ("assistant", "once upon")
