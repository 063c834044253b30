"""The gateway against a real endpoint: it streams, tries again, falls back, and fails in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from butler.errors import ModelFailed
from butler.models import gateway as gateway_module
from butler.models.gateway import ModelConfig, ModelGateway
from butler.types import CutText
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel

TOKEN = "sk-very-secret-token-0123456789"
USER = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

MakeGateway = Callable[..., ModelGateway]


@pytest.fixture
async def make_gateway(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeGateway]:
    """Makes gateways to the scripted endpoint that wait next to nothing between tries."""
    monkeypatch.setattr(gateway_module, "BACK_OFF_SECONDS", 0.01)
    made: list[ModelGateway] = []

    def make(**changes: Any) -> ModelGateway:
        fields = {"base_url": model.url, "model": "scripted", "api_token": TOKEN, "timeout": 5.0, **changes}
        made.append(ModelGateway(ModelConfig(**fields)))
        return made[-1]

    yield make
    for gateway in made:
        await gateway.aclose()


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> ModelGateway:
    return make_gateway()


async def failure_of(gateway: ModelGateway, on_text: Callable[[str], None] = lambda text: None) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await gateway.stream(USER, [], on_text)
    assert TOKEN not in caught.value.detail
    assert caught.value.code == "model_unavailable"
    return caught.value


def models_asked(model: ScriptedModel) -> list[str]:
    return [entry["body"]["model"] for entry in model.requests(hidden=True)]


async def test_text_arrives_in_pieces_and_whole(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="Good morning to you", usage=[7, 5], hold_after=[[2, "rest"]])
    pieces: list[str] = []
    first = asyncio.Event()

    def on_text(piece: str) -> None:
        pieces.append(piece)
        first.set()

    asking = asyncio.create_task(gateway.stream(USER, [TOOL], on_text))
    await asyncio.wait_for(first.wait(), 30)
    assert not asking.done()
    model.release("rest")
    reply = await asking
    assert (reply.text, "".join(pieces)) == ("Good morning to you", "Good morning to you")
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.model_calls) == (7, 5, 1)
    assert (reply.calls, reply.finish_reason, reply.model) == ((), "stop", "scripted")
    sent = model.requests()[0]
    assert sent["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert sent["body"] == {
        "model": "scripted",
        "messages": USER,
        "tools": [TOOL],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_keys_that_are_no_part_of_the_format_are_not_sent(gateway: ModelGateway, model: ScriptedModel) -> None:
    await gateway.stream([{**USER[0], "message_id": "m1", "at": "now"}], [], lambda text: None)
    assert model.requests()[0]["body"]["messages"] == USER


async def test_half_characters_in_the_talk_do_not_break_the_request(gateway: ModelGateway) -> None:
    reply = await gateway.stream([{"role": "user", "content": "broken \ud83d here"}], [], lambda text: None)
    assert reply.text.startswith("You said: broken ? here")


@pytest.mark.parametrize("split_name", [False, True])
@pytest.mark.parametrize("interleave", [False, True])
async def test_calls_are_put_together_from_pieces(
    gateway: ModelGateway, model: ScriptedModel, interleave: bool, split_name: bool
) -> None:
    calls = [
        {"name": "look_up", "arguments": {"city": "Köln", "days": 3}, "id": "c1"},
        {"name": "look_up", "arguments": {"city": "Bonn"}, "id": "c2"},
    ]
    model.reply(text="Looking.", calls=calls, pieces=4, interleave=interleave, split_name=split_name)
    reply = await gateway.stream(USER, [TOOL], lambda text: None)
    assert [(c.call_id, c.name, c.arguments) for c in reply.calls] == [
        ("c1", "look_up", '{"city": "Köln", "days": 3}'),
        ("c2", "look_up", '{"city": "Bonn"}'),
    ]
    assert (reply.text, reply.finish_reason) == ("Looking.", "tool_calls")


async def test_missing_and_repeated_call_ids_become_unique(gateway: ModelGateway, model: ScriptedModel) -> None:
    ids = [None, None, "same", "same"]
    model.reply(calls=[{"name": "look", "arguments": {}, "id": call_id} for call_id in ids])
    reply = await gateway.stream(USER, [TOOL], lambda text: None)
    given = [call.call_id for call in reply.calls]
    assert len(set(given)) == 4
    assert given[2] == "same"
    assert all(len(call_id) == 29 and call_id.startswith("call_") for call_id in given[:2] + given[3:])


async def test_one_json_body_is_read_like_a_stream(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="All at once", plain_json=True, calls=[{"name": "look", "arguments": {}, "id": "c1"}])
    pieces: list[str] = []
    reply = await gateway.stream(USER, [TOOL], pieces.append)
    assert pieces == ["All at once"]
    assert [call.call_id for call in reply.calls] == ["c1"]
    assert reply.usage.input_tokens > 0


@pytest.mark.parametrize("fault", [{"status": 429}, {"status": 500}, {"status": 503}, {"cut": 0}])
async def test_a_passing_fault_is_tried_again(gateway: ModelGateway, model: ScriptedModel, fault: Any) -> None:
    model.reply(**fault, times=2)
    model.reply(text="third time lucky")
    reply = await gateway.stream(USER, [], lambda text: None)
    assert reply.text == "third time lucky"
    assert len(model.requests()) == 3


async def test_three_tries_are_all(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(status=503, times=0)
    failed = await failure_of(gateway)
    assert failed.detail == "The model endpoint has trouble (503). Try again later."
    assert len(model.requests()) == 3


async def test_the_wait_the_endpoint_asks_for_is_kept(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(status=429, retry_after="1")
    await gateway.stream(USER, [], lambda text: None)
    first, second = (entry["at"] for entry in model.requests())
    assert 1.0 <= second - first < 3.0


async def test_a_wait_out_of_proportion_is_not_kept(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(status=429, retry_after="3600")
    await asyncio.wait_for(gateway.stream(USER, [], lambda text: None), 30)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "rejected the request (400): scripted error."),
        (401, "refused the token (401). Check BUTLER_API_TOKEN."),
        (403, "does not allow this (403)"),
        (404, "does not know the model 'scripted'"),
        (413, "too long for the model"),
    ],
)
async def test_what_will_not_pass_is_not_tried_again(
    gateway: ModelGateway, model: ScriptedModel, status: int, words: str
) -> None:
    model.reply(status=status, times=0)
    assert words in (await failure_of(gateway)).detail
    assert len(model.requests()) == 1


@pytest.mark.parametrize("cut", [1, 10])
@pytest.mark.parametrize("error_event", [False, True])
async def test_nothing_is_tried_again_after_the_first_token(
    make_gateway: MakeGateway, model: ScriptedModel, cut: int, error_event: bool
) -> None:
    gateway = make_gateway(fallback_model="spare")
    model.reply(tokens=50, cut=cut, error_event=error_event, gap=0.001, times=0)
    pieces: list[str] = []
    failed = await failure_of(gateway, pieces.append)
    assert failed.partial == "".join(pieces) != ""
    assert models_asked(model) == ["scripted"]


async def test_an_error_before_the_first_token_is_tried_again(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(cut=0, error_event=True)
    model.reply(text="fine now")
    assert (await gateway.stream(USER, [], lambda text: None)).text == "fine now"


async def test_an_empty_answer_is_asked_for_once_more(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="")
    model.reply(text="here it is")
    assert (await gateway.stream(USER, [], lambda text: None)).text == "here it is"


async def test_two_empty_answers_are_a_failure(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="", times=0)
    assert (await failure_of(gateway)).detail.startswith("The model gave an empty answer.")
    assert len(model.requests()) == 2


@pytest.mark.parametrize("status", [404, 503])
async def test_the_fallback_model_answers_when_the_first_can_not(
    make_gateway: MakeGateway, model: ScriptedModel, status: int
) -> None:
    gateway = make_gateway(fallback_model="spare")
    model.reply(status=status, model="scripted", times=0)
    reply = await gateway.stream(USER, [], lambda text: None)
    assert reply.model == "spare"
    assert models_asked(model) == ["scripted"] * (1 if status == 404 else 3) + ["spare"]


async def test_a_refused_token_is_not_tried_on_the_fallback(make_gateway: MakeGateway, model: ScriptedModel) -> None:
    model.reply(status=401, times=0)
    await failure_of(make_gateway(fallback_model="spare"))
    assert models_asked(model) == ["scripted"]


async def test_silence_before_the_first_token_is_tried_again(make_gateway: MakeGateway, model: ScriptedModel) -> None:
    model.reply(hang=True)
    notices: list[str] = []
    reply = await make_gateway(timeout=1.0).stream(USER, [], lambda text: None, notices.append)
    assert reply.text
    assert len(model.requests()) == 2
    assert notices == ["The model has been silent for 1 s; asking it once more."]


async def test_silence_is_waited_for_twice_and_the_whole_wait_is_told(
    make_gateway: MakeGateway, model: ScriptedModel
) -> None:
    model.reply(hang=True, times=0)
    failed = await failure_of(make_gateway(timeout=0.4))
    told = float(failed.detail.removeprefix("The model did not answer within ").split(" s")[0])
    assert 0.8 <= told < 30
    assert len(model.requests()) == 2


async def test_silence_in_mid_answer_is_a_failure_with_what_had_come(
    make_gateway: MakeGateway, model: ScriptedModel
) -> None:
    model.reply(text="one two three", hold_after=[[2, "never"]], times=0)
    failed = await failure_of(make_gateway(timeout=1.0))
    assert "fell silent for 1 s" in failed.detail
    assert failed.partial.startswith("one")
    assert len(model.requests()) == 1


async def test_the_time_out_bounds_each_silence_and_not_the_whole(
    make_gateway: MakeGateway, model: ScriptedModel
) -> None:
    model.reply(tokens=30, gap=0.05)
    reply = await make_gateway(timeout=1.0).stream(USER, [], lambda text: None)
    assert reply.finish_reason == "stop"


async def test_an_endpoint_that_is_not_there_is_named(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(base_url="http://user:pass@127.0.0.1:9/v1")
    failed = await failure_of(gateway)
    assert failed.detail.startswith("The model endpoint at 127.0.0.1:9 cannot be reached.")
    assert failed.detail == await gateway.probe()


async def test_cancelling_closes_the_connection_to_the_provider(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(tokens=50, hold_after=[[2, "never"]])
    first = asyncio.Event()
    asking = asyncio.create_task(gateway.stream(USER, [], lambda text: first.set()))
    await asyncio.wait_for(first.wait(), 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.to_thread(
        wait_until, lambda: model.requests()[0]["state"] == "disconnected", "the provider saw us go"
    )


async def test_an_error_of_the_listener_is_not_taken_for_the_models(gateway: ModelGateway) -> None:
    def on_text(piece: str) -> None:
        raise TimeoutError("the listener's own")

    with pytest.raises(TimeoutError, match="the listener's own"):
        await gateway.stream(USER, [], on_text)


async def test_hidden_calls_name_their_purpose_and_stay_hidden(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="<think>hm</think>\n A summary.", purpose="compaction")
    assert await gateway.complete(USER, purpose="compaction", timeout=5, max_tokens=99) == "A summary."
    sent = model.requests(hidden=True)[0]
    assert sent["purpose"] == "compaction"
    assert sent["body"] == {"model": "scripted", "messages": USER, "stream": False, "max_tokens": 99}


async def test_a_hidden_answer_that_its_limit_ended_says_so(gateway: ModelGateway, model: ScriptedModel) -> None:
    model.reply(text="A sum", purpose="compaction", finish="length")
    cut = await gateway.complete(USER, purpose="compaction", timeout=5, max_tokens=1)
    model.reply(text="A summary.", purpose="compaction")
    whole = await gateway.complete(USER, purpose="compaction", timeout=5, max_tokens=99)
    assert (cut, whole) == ("A sum", "A summary.")
    assert isinstance(cut, CutText) and not isinstance(whole, CutText)


async def test_a_hidden_call_has_one_time_limit_for_everything(make_gateway: MakeGateway, model: ScriptedModel) -> None:
    model.reply(hang=True, purpose="title", times=0)
    with pytest.raises(ModelFailed, match=r"within 0\.2 s \(title\)"):
        await make_gateway().complete(USER, purpose="title", timeout=0.2)


async def test_a_probe_of_a_sound_endpoint_finds_nothing(gateway: ModelGateway) -> None:
    assert await gateway.probe() is None


async def test_many_turns_run_at_once(gateway: ModelGateway) -> None:
    await gateway.warm()
    replies = await asyncio.gather(*(gateway.stream(USER, [], lambda text: None) for _ in range(20)))
    assert len({reply.text for reply in replies}) == 1
