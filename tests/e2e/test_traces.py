"""Traces go to an OTLP receiver when its address is set, say no contents, and change no answer (B8)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.traces import TraceReceiver, json_receiver, trace_receiver

SECRET_WORDS = "the vault is behind the picture"


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    with trace_receiver() as made:
        yield made


def talk(server: ButlerServer) -> list[Json]:
    """A talk with a tool, an approval and a failing model; gives its outcomes and what the transcript has."""
    client: Client = server.client()
    first = client.chat(f"{SECRET_WORDS} {call('note_line', SECRET_WORDS)}")
    thread = first["thread_id"]
    parked = client.chat(call("append_line", "two"), thread)
    decided = client.decided(thread, approve(parked["approvals"][0]))
    failed = client.chat("[[status 400]] three", thread)
    return [first, parked, decided, failed, client.get(f"/threads/{thread}/messages")]


def without_ids(outcomes: list[Json]) -> str:
    """The outcomes without what differs between any two houses: ids, codes, times."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if not _is_own(key)}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return json.dumps(plain([*outcomes]), sort_keys=True)


def _is_own(key: str) -> bool:
    return key.endswith(("_id", "_at")) or key in ("id", "code", "at", "next_cursor")


def test_answers_are_the_same_with_traces_and_without_and_spans_say_who_did_what(
    make_butler: MakeButler, model: ScriptedModel, receiver: TraceReceiver
) -> None:
    watched = make_butler(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_SERVICE_NAME="house").start()
    plain = make_butler().start()
    with_traces, without = talk(watched), talk(plain)
    assert without_ids(with_traces) == without_ids(without)
    assert watched.stop() == plain.stop() == 0
    assert "telemetry" not in watched.stderr

    turns = receiver.named("butler.user_message")
    assert [turn.attributes["butler.turn.status"] for turn in turns] == ["done", "parked", "done", "failed"]
    assert {turn.attributes["gen_ai.conversation.id"] for turn in turns} == {with_traces[0]["thread_id"]}
    assert [turn.attributes["butler.run.id"] for turn in turns] == [one["run_id"] for one in with_traces[:4]]
    assert {span.service for span in receiver.spans} == {"house"}

    parents = {turn.span_id for turn in turns}
    calls = receiver.named("chat scripted")
    assert all(call.parent in parents for call in calls)
    assert calls[0].attributes["gen_ai.operation.name"] == "chat"
    assert calls[0].attributes["gen_ai.usage.input_tokens"] > 0
    assert calls[0].attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert [call.failed for call in calls].count(True) == 1
    [tool] = receiver.named("execute_tool note_line")
    assert tool.parent == turns[0].span_id
    assert tool.attributes["gen_ai.tool.name"] == "note_line"
    assert tool.attributes["butler.run.id"] == with_traces[0]["run_id"] and tool.attributes["butler.action.id"]
    assert calls[0].attributes["gen_ai.response.model"] == "scripted"
    assert len(receiver.named("execute_tool append_line")) == 1
    assert not any(b"vault" in raw for raw in receiver.raw), "what was said leaves the house"


def test_a_receiver_that_is_not_there_holds_up_nothing(make_butler: MakeButler) -> None:
    server = make_butler(
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OBSERVABILITY_COZELOOP_ENABLED="true",
        COZELOOP_API_BASE_URL="http://127.0.0.1:9",
        COZELOOP_WORKSPACE_ID="42",
        COZELOOP_API_TOKEN="coze-token-1234",
    ).start()
    assert server.client().chat("[[say hello]]")["reply"] == "hello"
    assert server.stop() == 0


def test_cozeloop_gets_the_same_spans_through_its_own_sdk(make_butler: MakeButler, model: ScriptedModel) -> None:
    with json_receiver() as posts:
        plain = make_butler().start()
        server = make_butler(
            OBSERVABILITY_COZELOOP_ENABLED="true",
            OBSERVABILITY_SERVICE_NAME="house",
            COZELOOP_API_BASE_URL=posts.url,
            COZELOOP_WORKSPACE_ID="42",
            COZELOOP_API_TOKEN="coze-token-1234",
        ).start()
        outcomes = talk(server)
        assert without_ids(outcomes) == without_ids(talk(plain))
        assert server.stop() == 0
        spans = [span for path, body in posts.bodies for span in body["spans"] if path.endswith("/traces/ingest")]
    by_name = {span["span_name"]: span for span in spans}
    assert {"butler.user_message", "chat scripted", "execute_tool note_line"} <= by_name.keys()
    turn, tool = by_name["butler.user_message"], by_name["execute_tool note_line"]
    assert turn["tags_string"]["gen_ai.conversation.id"] == outcomes[0]["thread_id"]
    assert (by_name["chat scripted"]["span_type"], tool["span_type"]) == ("model", "tool")
    assert tool["parent_id"] in {span["span_id"] for span in spans if span["span_name"] == "butler.user_message"}
    assert "vault" not in json.dumps(spans)
    assert "coze-token-1234" not in server.stderr


def test_cozeloop_without_its_settings_is_off_and_says_so(make_butler: MakeButler) -> None:
    server = make_butler(OBSERVABILITY_COZELOOP_ENABLED="true").start()
    assert server.client().chat("[[say hello]]")["reply"] == "hello"
    assert "telemetry_not_configured" in server.stderr
    # Log lines are JSON, and say whose turn they speak of.
    outcome = server.client().chat(f"[[status 503 1]][[say at last]] {fresh()}")
    assert outcome["reply"] == "at last"
    [retry] = [one for one in map(json.loads, server.stderr.splitlines()) if one["event"] == "model_retry"]
    assert (retry["thread_id"], retry["run_id"]) == (outcome["thread_id"], outcome["run_id"])
