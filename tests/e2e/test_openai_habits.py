"""What chat clients do to the OpenAI-compatible endpoint beside plain talk: odd fields, histories, stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.support.client import Client, Json
from tests.support.openai_sdk import MODEL, ask, assistant, sdk, text_of, texts, thread_of, user
from tests.support.orders import call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import OWNER_TOKEN, ButlerServer
from tests.support.sockets import open_socket
from tests.support.sockets import text_of as streamed_text


@pytest.fixture
def ai(butler: ButlerServer) -> Iterator[OpenAI]:
    """The owner's client."""
    with sdk(butler) as client:
        yield client


def said(stream: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


OPEN_WEBUI: Json = {
    "chat_id": "c", "session_id": "s", "id": "m", "files": None, "features": {"web_search": False}, "params": {},
    "tool_servers": [], "background_tasks": {"title_generation": True}, "model_item": {"id": "butler"},
    "stop": ["END"], "n": 1, "frequency_penalty": 0, "logit_bias": {"1": 2}, "seed": 1, "keep_alive": "5m",
    "options": {"num_ctx": 2048}, "response_format": {"type": "text"}, "user": "someone", "store": True,
    "functions": [{"name": "burn"}], "parallel_tool_calls": False, "reasoning_effort": "low", "service_tier": "auto",
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_fields_that_clients_send_and_butler_does_not_know_change_nothing(
    ai: OpenAI, model: ScriptedModel, stream: bool
) -> None:
    word = fresh()
    answer = ask(ai, user(f"[[say it ENDs here]] {word}"), stream=stream, extra_body=OPEN_WEBUI)
    assert (said(answer) if stream else text_of(answer)) == "it ENDs here"
    sent = model.requests(word)[0]["body"]
    assert not {"stop", "seed", "functions", "user", "reasoning_effort", "options"} & sent.keys()


def test_a_history_with_images_tool_calls_and_nulls_is_read_for_its_new_message_alone(
    ai: OpenAI, owner: Client
) -> None:
    new = fresh()
    picture = {
        "role": "user",
        "name": "ann",
        "content": [
            {"type": "text", "text": fresh()},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ],
    }
    tool_call = {"id": "x", "type": "function", "function": {"name": "burn", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [tool_call], "refusal": None}
    result = {"role": "tool", "tool_call_id": "x", "content": "[[call append_line {}]]"}
    system: list[Json] = [{"role": "system", "content": "Be a pirate."}, {"role": "developer", "content": "Arr."}]
    answer = ask(ai, *system, picture, calls, result, assistant("done"), user(new))
    assert texts(owner, thread_of(answer)) == [new]
    assert answer.butler["status"] == "done"


def test_the_model_list_takes_whatever_stands_in_the_query_and_heads(butler: ButlerServer, owner: Client) -> None:
    for path in ("/v1/models?limit=5&refresh=true", "/v1/models?"):
        [model] = owner.request("GET", path, headers={"OpenAI-Organization": "x", "OpenAI-Beta": "y"}).json()["data"]
        assert model["id"] == MODEL


def test_a_client_that_stops_in_the_midst_of_a_stream_can_go_on_talking(
    ai: OpenAI, owner: Client, model: ScriptedModel
) -> None:
    gate, later = fresh("gate"), fresh()
    first = user(f"[[hold {gate} 2]] [[say one two three]]")
    with ask(ai, first, stream=True) as stream:
        seen = ""
        for chunk in stream:
            seen += chunk.choices[0].delta.content or ""
            run_id = chunk.id.removeprefix("chatcmpl-")
            if seen.startswith("one"):
                break
    model.release(gate)
    owner.when_run(run_id, "done")
    answer = ask(ai, first, assistant(seen), user(f"[[say later]] {later}"))
    assert text_of(answer) == "later"
    assert texts(owner, thread_of(answer), "assistant") == ["one two three", "later"]


@pytest.mark.parametrize("fault", ["[[status 400]]", "[[say a b c d]][[cut 2]]"])
def test_a_stream_whose_model_fails_apologises_and_ends_as_every_stream_does(ai: OpenAI, fault: str) -> None:
    chunks = list(ask(ai, user(f"{fault} {fresh()}"), stream=True, stream_options={"include_usage": True}))
    assert "I'm sorry" in said(chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None


def test_a_parked_turn_streams_what_waits(ai: OpenAI) -> None:
    chunks = list(ask(ai, user(call("append_line", fresh())), stream=True))
    assert "`/approve " in said(chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/v1/audio/speech", "/v1/models/butler/x"])
def test_what_butler_does_not_offer_is_refused_in_openais_shape(butler: ButlerServer, owner: Client, path: str) -> None:
    answer = owner.request("POST", path, json={"model": MODEL, "input": "x"})
    assert answer.status_code in (404, 405)
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}


def test_a_body_that_is_no_json_and_one_that_is_too_large_are_refused_in_openais_shape(
    butler: ButlerServer, owner: Client, ai: OpenAI
) -> None:
    headers = {"Content-Type": "application/json"}
    broken = owner.request("POST", "/v1/chat/completions", content=b"{", headers=headers)
    assert (broken.status_code, broken.json()["error"]["code"]) == (422, "invalid_request")
    with pytest.raises(openai.APIStatusError) as large:
        ask(ai, user("x" * 5_000_000))
    assert (large.value.status_code, large.value.code) == (413, "too_large")


def test_a_secret_that_the_model_says_piece_by_piece_is_masked_on_every_face(
    ai: OpenAI, owner: Client, model: ScriptedModel
) -> None:

    order = f"[[say it is x{OWNER_TOKEN}y and z]]"
    with owner.stream("POST", "/chat", {"message": f"{order} {fresh()}"}) as stream:
        events = stream.rest()
    assert stream.text() == events[-1].data["reply"] == "it is x***y and z"
    assert said(ask(ai, user(f"{order} {fresh()}"), stream=True)) == "it is x***y and z"
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload=f"{order} {fresh()}")
        assert streamed_text(admin.turn()) == "it is x***y and z"
        assert OWNER_TOKEN not in str(admin.received)
