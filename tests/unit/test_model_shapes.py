"""The gateway reads what servers really send: odd streams, odd tool calls, odd refusals."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from butler.errors import ModelFailed
from butler.memory.tokens import count_messages, count_tokens
from butler.models import gateway as gateway_module
from butler.models import reply as reply_module
from butler.models.gateway import ModelConfig, ModelGateway
from butler.models.overflow import ContextOverflow, Overflow
from butler.types import ModelReply

USER = [{"role": "user", "content": "hello"}]
DONE = b"data: [DONE]\n\n"
SSE = "text/event-stream"


def event(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "m", "choices": [choice], **more}).encode() + b"\n\n"


def say(text: str) -> bytes:
    return event({"content": text})


def piece(**fields: Any) -> bytes:
    return event({"tool_calls": [fields]})


END = event({}, "stop") + DONE
CALLS_END = event({}, "tool_calls") + DONE


class RawEndpoint:
    """Answers the n-th request with the n-th scripted bytes, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, list[bytes]]] = []
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.hang_after = False
        self.pause = 0.0
        self.gone = asyncio.Event()
        self.url = ""

    def answer(self, *chunks: bytes, status: int = 200, kind: str = SSE, headers: str = "", whole: bool = True) -> None:
        """Script one answer; not `whole`: the connection breaks after the chunks."""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{headers}transfer-encoding: chunked\r\n\r\n"
        parts = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
        self.answers.append((head, [*parts, b"0\r\n\r\n"] if whole else parts))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(lines.get("content-length", "0")))
                self.requests.append({"headers": lines, "body": json.loads(body or b"{}")})
                start, chunks = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
                writer.write(start.encode())
                for chunk in chunks:
                    writer.write(chunk)
                    await writer.drain()
                    await asyncio.sleep(self.pause)
                if self.hang_after:
                    await reader.read()
                    self.gone.set()
                if chunks[-1:] != [b"0\r\n\r\n"]:
                    break
        except asyncio.IncompleteReadError:
            return
        except ConnectionError:
            self.gone.set()
        finally:
            writer.close()


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawEndpoint]:
    monkeypatch.setattr(gateway_module, "BACK_OFF_SECONDS", 0.01)
    raw = RawEndpoint()
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    yield raw
    server.close()


@pytest.fixture
async def gateway(endpoint: RawEndpoint) -> AsyncIterator[ModelGateway]:
    made = ModelGateway(ModelConfig(endpoint.url, "m", timeout=10.0))
    yield made
    await made.aclose()


async def ask(gateway: ModelGateway, on_text: Callable[[str], None] = lambda text: None) -> ModelReply:
    return await gateway.stream(USER, [], on_text)


async def fails(gateway: ModelGateway) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await ask(gateway)
    return caught.value


def calls_of(reply: ModelReply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.calls]


TEXT = "Grüße 雨"
TWO = [say("Grüße "), say("雨")]
WHOLE_EVENT = event(None).replace(b'"delta": null', b'"message": {"content": "Gr\xc3\xbc\xc3\x9fe \xe9\x9b\xa8"}')
SPREAD = b'data: {"choices": [\ndata: {"delta": {"content": "Gr\xc3\xbc\xc3\x9fe \xe9\x9b\xa8"}}]}\n\n'
STREAMS: dict[str, Sequence[bytes]] = {
    "a byte at a time": [bytes([byte]) for byte in b"".join(TWO) + END],
    "with carriage returns": [(b"".join(TWO) + END).replace(b"\n", b"\r\n")],
    "without a space after data": [(b"".join(TWO) + END).replace(b"data: ", b"data:")],
    "between comments and event names": [b": ping\n\nevent: message\n", TWO[0], b": ping\n\n", TWO[1], END],
    "an event over several data lines": [SPREAD, END],
    "an event over several data lines, with carriage returns": [(SPREAD + END).replace(b"\n", b"\r\n")],
    "without an end mark": [*TWO, event({}, "stop")],
    "without a last line end": [*TWO, event({}, "stop").strip()],
    "without a finish reason": [*TWO, DONE],
    "with a finish reason nobody knows": [*TWO, event({}, "eos_token"), DONE],
    "with reasoning beside the text": [event({"reasoning_content": "hm", "content": None}), *TWO, END],
    "content in parts": [event({"content": [{"type": "text", "text": TEXT}]}), END],
    "a whole message as one event": [WHOLE_EVENT, DONE],
    "odd events in between": [b"data: 7\n\n", b'data: {"choices": [null]}\n\n', event(None), *TWO, END],
    "no choices at first": [b'data: {"choices": []}\n\n', *TWO, END],
    "null errors": [event({"content": TEXT}, error=None), END],
}


@pytest.mark.parametrize("shape", STREAMS)
async def test_streams_of_every_shape_are_read(endpoint: RawEndpoint, gateway: ModelGateway, shape: str) -> None:
    endpoint.answer(*STREAMS[shape])
    pieces: list[str] = []
    reply = await ask(gateway, pieces.append)
    assert (reply.text, "".join(pieces)) == (TEXT, TEXT)
    assert len(endpoint.requests) == 1


async def test_a_packed_body_is_unpacked(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(gzip.compress(say("packed") + END), headers="content-encoding: gzip\r\n")
    assert (await ask(gateway)).text == "packed"


async def test_a_character_sent_as_two_halves_is_joined(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    half = b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n'
    endpoint.answer(half % rb"a\ud83d", half % rb"\ude00b", END)
    assert (await ask(gateway)).text == "a\U0001f600b"


async def test_each_piece_is_shown_by_itself_also_when_several_come_in_one_read(
    endpoint: RawEndpoint, gateway: ModelGateway
) -> None:
    endpoint.answer(say("one ") + say("two ") + say("three") + END)
    pieces: list[str] = []
    await ask(gateway, pieces.append)
    assert pieces == ["one ", "two ", "three"]


async def test_the_connection_is_kept_for_the_next_turn(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("hello"), END)
    await ask(gateway)
    await ask(gateway)
    assert endpoint.connections == 1


async def test_an_endpoint_that_never_ends_its_body_costs_little(endpoint: RawEndpoint) -> None:
    gateway = ModelGateway(ModelConfig(endpoint.url, "m", timeout=60.0))
    endpoint.answer(say("hello"), END, whole=False)
    endpoint.hang_after = True
    assert (await asyncio.wait_for(ask(gateway), 30)).text == "hello"
    await gateway.aclose()


async def test_usage_that_is_not_reported_is_estimated(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("hello there"), END)
    usage = (await ask(gateway)).usage
    assert (usage.input_tokens, usage.output_tokens) == (count_messages(USER), count_tokens("hello there"))


async def test_the_form_before_tool_calls_is_read(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    parts = [{"name": "look", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}]
    endpoint.answer(*(event({"function_call": part}) for part in parts), event({}, "function_call"), DONE)
    assert calls_of(await ask(gateway)) == [("look", '{"a":1}')]


async def test_no_arguments_mean_an_empty_object(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(piece(index=0, id="x", function={"name": "look", "arguments": ""}), CALLS_END)
    assert calls_of(await ask(gateway)) == [("look", "{}")]


async def test_a_call_cut_by_the_length_limit_stays_malformed(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(piece(index=0, id="x", function={"name": "look", "arguments": '{"a": "b'}), event({}, "length"))
    reply = await ask(gateway)
    assert (calls_of(reply), reply.finish_reason) == ([("look", '{"a": "b')], "length")


async def test_a_stream_that_just_ends_is_a_failure(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("half an"))
    failed = await fails(gateway)
    assert failed.partial == "half an"
    assert "broke before its answer was complete" in failed.detail
    assert len(endpoint.requests) == 1


async def test_an_end_right_after_the_finish_reason_is_none(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("all of it"), event({}, "stop"), whole=False)
    assert (await ask(gateway)).text == "all of it"


async def test_text_before_an_error_in_the_same_read_was_shown(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("begun") + b'data: {"error": {"message": "overloaded"}}\n\n')
    pieces: list[str] = []
    with pytest.raises(ModelFailed, match="reported an error: overloaded") as caught:
        await ask(gateway, pieces.append)
    assert (caught.value.partial, pieces) == ("begun", ["begun"])


async def test_a_listeners_error_closes_the_connection(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("hello"), whole=False)
    endpoint.hang_after = True

    def on_text(text: str) -> None:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await ask(gateway, on_text)
    await asyncio.wait_for(endpoint.gone.wait(), 30)


async def test_white_space_alone_is_an_empty_answer(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("\n"), say("  "), END)
    endpoint.answer(say("\n"), say("hello"), END)
    pieces: list[str] = []
    assert (await ask(gateway, pieces.append)).text == "\nhello"
    assert "".join(pieces) == "\nhello"


async def test_keep_alive_comments_are_no_tokens(endpoint: RawEndpoint) -> None:
    gateway = ModelGateway(ModelConfig(endpoint.url, "m", timeout=0.2))
    endpoint.answer(*[b": ping\n\n"] * 20, END)
    endpoint.pause = 0.05
    assert "did not answer within" in (await fails(gateway)).detail
    await gateway.aclose()


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"<html><body>Welcome</body></html>", "text/html", "no chat completion"),
        (b'{"hello": "world"}', "application/json", "no chat completion"),
        (b'{"choices": [', "application/json", "no chat completion"),
        (b"data: {what}\n\n", SSE, "no chat completion"),
        (
            b'{"error": {"message": "no such model", "code": 404}}',
            "application/json",
            "does not know the model",
        ),
        (
            b'data: {"error": {"message": "bad", "type": "invalid_request_error"}}\n\n',
            SSE,
            "rejected the request",
        ),
        (event({}, "content_filter"), SSE, "blocked this answer"),
    ],
)
async def test_what_is_no_completion_is_said_at_once(
    endpoint: RawEndpoint, gateway: ModelGateway, body: bytes, kind: str, words: str
) -> None:
    endpoint.answer(body, kind=kind)
    assert words in (await fails(gateway)).detail
    assert len(endpoint.requests) == 1


async def test_a_reply_out_of_all_bounds_is_stopped(
    endpoint: RawEndpoint, gateway: ModelGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_module, "MAX_TEXT_CHARS", 100)
    endpoint.answer(*[say("x" * 30)] * 4, END)
    assert "grew too large" in (await fails(gateway)).detail
    endpoint.answers = []
    endpoint.answer(piece(index=0, function={"name": "look", "arguments": '{"a": "' + "x" * 100}), END)
    assert "grew too large" in (await fails(gateway)).detail


async def test_an_answer_longer_than_the_context_is_cut_and_the_endpoint_stops(endpoint: RawEndpoint) -> None:
    gateway = ModelGateway(ModelConfig(endpoint.url, "m", timeout=5.0, context_limit=1000))
    endpoint.answer(*[say("and the cat slept ")] * 1000, whole=False)
    endpoint.hang_after = True
    pieces: list[str] = []
    reply = await ask(gateway, pieces.append)
    assert reply.finish_reason == "length" and reply.text == "".join(pieces)
    assert 1000 < count_tokens(reply.text) < 2000
    await asyncio.wait_for(endpoint.gone.wait(), 30)
    await gateway.aclose()


async def test_more_calls_than_any_use_needs_are_stopped(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(*(piece(index=n, function={"name": "look", "arguments": "{}"}) for n in range(129)), CALLS_END)
    assert "grew too large" in (await fails(gateway)).detail


async def test_an_endpoint_without_stream_options_is_asked_without_them(
    endpoint: RawEndpoint, gateway: ModelGateway
) -> None:
    complaint = b'{"error": {"message": "unknown field: stream_options"}}'
    endpoint.answer(complaint, status=400, kind="application/json")
    endpoint.answer(say("hello"), END)
    await ask(gateway)
    await ask(gateway)
    assert ["stream_options" in request["body"] for request in endpoint.requests] == [True, False, False]


async def test_an_endpoint_that_names_the_limit_otherwise_gets_it_so(
    endpoint: RawEndpoint, gateway: ModelGateway
) -> None:
    complaint = b'{"error": {"message": "Use \'max_completion_tokens\' instead of \'max_tokens\'"}}'
    endpoint.answer(complaint, status=400, kind="application/json")
    endpoint.answer(b'{"choices": [{"message": {"content": "A title"}}]}', kind="application/json")
    assert await gateway.complete(USER, purpose="title", timeout=5, max_tokens=9) == "A title"
    assert endpoint.requests[-1]["body"]["max_completion_tokens"] == 9
    assert "max_tokens" not in endpoint.requests[-1]["body"]


async def test_a_talk_that_is_too_long_is_its_own_kind_of_failure(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    error = {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 4659, "n_ctx": 4096}
    endpoint.answer(json.dumps({"error": error}).encode(), status=400, kind="application/json")
    failed = await fails(gateway)
    assert isinstance(failed, ContextOverflow) and failed.overflow == Overflow(4659, 4096)
    assert "the endpoint takes 4096 tokens" in failed.detail and len(endpoint.requests) == 1


async def test_without_a_token_none_is_sent(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(say("hello"), END)
    await ask(gateway)
    assert "authorization" not in endpoint.requests[0]["headers"]


async def test_a_used_up_quota_is_not_tried_again(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(b'{"error": {"code": "insufficient_quota"}}', status=429, kind="application/json")
    assert "quota of the model endpoint is used up" in (await fails(gateway)).detail
    assert len(endpoint.requests) == 1


async def test_what_the_endpoint_says_is_shown_short_and_without_keys(endpoint: RawEndpoint) -> None:
    gateway = ModelGateway(ModelConfig(endpoint.url, "m", api_token="tiny-secret"))
    said = "bad field in request by tiny-secret with sk-abcdefgh1234567 " + "and so on " * 100
    endpoint.answer(json.dumps({"detail": said}).encode(), status=422, kind="application/json")
    detail = (await fails(gateway)).detail
    assert "bad field in request by … with …" in detail
    assert len(detail) < 300
    await gateway.aclose()


async def test_a_probe_says_what_is_wrong(endpoint: RawEndpoint, gateway: ModelGateway) -> None:
    endpoint.answer(b"{}", status=401, kind="application/json")
    assert await gateway.probe() == "The model endpoint refused the token (401). Check BUTLER_API_TOKEN."
    endpoint.answers = []
    endpoint.answer(b"{", whole=False)
    endpoint.hang_after = True
    assert "did not answer within 0.2 s" in str(await gateway.probe(timeout=0.2))
