"""Calls of one assistant message: classified before any runs, one result each, in the order of the calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client
from tests.support.orders import approve, call, fresh, park, results
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


def test_of_four_calls_each_gets_exactly_one_result_in_order(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    allowed, first, second, refused = (fresh(word) for word in ("allowed", "first", "second", "refused"))
    outcome = owner.chat(
        call("note_line", allowed)
        + call("append_line", first)
        + call("append_line", second)
        + call("burn_line", refused)
    )
    assert outcome["status"] == "parked"
    assert sorted(a["args"]["text"] for a in outcome["approvals"]) == [first, second]
    assert len(butler.workshop.effects(allowed)) == 1, "the allowed call does not wait for the others"
    by_text = {a["args"]["text"]: a for a in outcome["approvals"]}
    assert owner.decided(outcome["thread_id"], approve(by_text[second]))["status"] == "parked"
    assert owner.decided(outcome["thread_id"], approve(by_text[first]))["status"] == "done"
    told = results(model, allowed)
    assert len(told) == 4
    assert f"wrote {allowed}" in told[0]
    assert f"wrote {first}" in told[1]
    assert f"wrote {second}" in told[2]
    assert "wrote" not in told[3]
    for text, count in ((allowed, 1), (first, 1), (second, 1), (refused, 0)):
        assert len(butler.workshop.effects(text)) == count
    assert len(model.requests(allowed)) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_results_keep_the_order_of_the_calls_whatever_the_order_of_decisions(
    butler: ButlerServer, owner: Client, model: ScriptedModel, order: tuple[int, ...]
) -> None:
    texts = [fresh(str(n)) for n in range(3)]
    parked = park(owner, *texts)
    for n in order:
        owner.decided(parked["thread_id"], approve(parked["approvals"][n]))
    told = results(model, texts[0])
    assert [text in result for text, result in zip(texts, told, strict=True)] == [True] * 3


def test_a_refused_call_is_told_at_once_and_the_turn_goes_on(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    target = fresh("prod")
    outcome = owner.chat(call("delete_thing", target=target))
    assert (outcome["status"], outcome["approvals"]) == ("done", [])
    assert "Production is off limits" in results(model, target)[0]
    assert butler.workshop.effects(target) == []


def test_a_rule_that_allows_beats_the_tools_own_verdict(butler: ButlerServer, owner: Client) -> None:
    text = "free " + fresh()
    outcome = owner.chat(call("append_line", text))
    assert outcome["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_a_rule_that_asks_beats_one_that_allows(butler: ButlerServer, owner: Client) -> None:
    [action] = owner.chat(call("append_line", "free but " + fresh()))["approvals"]
    assert (action["rule"], action["reason"]) == ("free-but-not-this", "Not quite free")


def test_a_tool_without_a_verdict_asks(butler: ButlerServer, owner: Client) -> None:
    assert owner.chat(call("plain_line", fresh()))["status"] == "parked"


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        '{"text": ',
        "null",
        "[]",
        '"text"',
        "{}",
        '{"text": 5}',
        '{"text": "x", "more": 1}',
        "not json",
        '{"text": NaN}',
    ],
)
def test_arguments_that_do_not_fit_the_schema_come_back_as_an_error_and_ask_nobody(
    butler: ButlerServer, owner: Client, model: ScriptedModel, arguments: str
) -> None:
    marker = fresh()
    model.reply(marker=marker, calls=[{"name": "append_line", "arguments": arguments}])
    outcome = owner.chat(marker)
    assert (outcome["status"], outcome["approvals"]) == ("done", [])
    [result] = results(model, marker)
    assert result
    assert owner.chat(fresh(), outcome["thread_id"])["status"] == "done"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"target": "t", "n": NaN}',
        '{"target": "t", "n": -Infinity}',
        '{"target": "t", "n": 1e999}',
        '{"target": "t", "n": ' + "9" * 400 + "}",
        '{"target": "half a pair \\ud83d"}',
        '{"target": "null byte \\u0000"}',
        '{"target": "t", "n": ' + "[" * 3000 + "]" * 3000 + "}",
        '{"target": "t", "target": "prod-x"}',
        '{"target": "' + "x" * 300_000 + '"}',
    ],
    ids=lambda arguments: arguments[:40],
)
def test_hostile_arguments_break_neither_turn_nor_thread(
    butler: ButlerServer, owner: Client, model: ScriptedModel, arguments: str
) -> None:
    marker = fresh()
    model.reply(marker=marker, calls=[{"name": "delete_thing", "arguments": arguments}])
    outcome = owner.chat(marker)
    assert outcome["status"] in ("done", "parked"), outcome["error"]
    for action in outcome["approvals"]:
        assert owner.approval(action["action_id"]) == action
        assert owner.decided(outcome["thread_id"], approve(action))["status"] == "done"
    assert owner.chat(fresh(), outcome["thread_id"])["status"] == "done"
    assert butler.workshop.effects("prod-x") == []


def test_a_bad_call_beside_a_good_one_does_not_stop_it(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker, text = fresh("marker"), fresh()
    bad = {"name": "note_line", "arguments": "{oops"}
    model.reply(marker=marker, calls=[bad, {"name": "note_line", "arguments": {"text": text}}])
    assert owner.chat(marker)["status"] == "done"
    first, second = results(model, marker)
    assert "wrote" not in first
    assert f"wrote {text}" in second


def test_a_tool_that_does_not_exist_is_told_to_the_model(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = fresh()
    outcome = owner.chat(call("summon_dragon", text))
    assert outcome["status"] == "done"
    [result] = results(model, text)
    assert "summon_dragon" in result


@pytest.mark.parametrize("name", ["", "no spaces allowed", "x" * 100, "naïve", "../../bin/sh"])
def test_an_impossible_tool_name_breaks_neither_turn_nor_history(
    butler: ButlerServer, owner: Client, model: ScriptedModel, name: str
) -> None:
    marker = fresh()
    model.reply(marker=marker, calls=[{"name": name, "arguments": {"text": "x"}}])
    outcome = owner.chat(marker)
    assert outcome["status"] in ("done", "failed")
    assert owner.chat(fresh(), outcome["thread_id"])["status"] == "done"


@pytest.mark.parametrize("ids", [[None, None], ["same", "same"], ["", ""], ["a", None]], ids=str)
def test_missing_or_doubled_call_ids_are_made_unique(
    butler: ButlerServer, owner: Client, model: ScriptedModel, ids: list[Any]
) -> None:
    marker, one, two = fresh("marker"), fresh("one"), fresh("two")
    calls = [
        {"name": "append_line", "arguments": {"text": text}, "id": call_id}
        for text, call_id in zip((one, two), ids, strict=True)
    ]
    model.reply(marker=marker, calls=calls)
    outcome = owner.chat(marker)
    assert len(outcome["approvals"]) == 2
    owner.decided(outcome["thread_id"], *(approve(a) for a in outcome["approvals"]))
    first, second = results(model, marker)
    assert f"wrote {one}" in first
    assert f"wrote {two}" in second


def test_an_id_that_comes_again_in_a_later_round_is_another_call(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker, one, two = fresh("marker"), fresh("one"), fresh("two")
    for text in (one, two):
        arguments = {"text": text}
        model.reply(marker=marker, calls=[{"name": "note_line", "arguments": arguments, "id": "call_1"}])
    assert owner.chat(marker)["status"] == "done"
    assert len(butler.workshop.effects(one)) == len(butler.workshop.effects(two)) == 1


def test_the_same_call_twice_in_one_message_is_two_calls(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    outcome = owner.chat(call("note_line", text) * 2)
    assert outcome["status"] == "done"
    assert len({action for action, _ in butler.workshop.effects(text)}) == 2


def test_calls_in_many_interleaved_pieces_are_put_together(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker = fresh("marker")
    texts = [fresh(str(n)) + ' { "quoted" } é 🎩' for n in range(4)]
    calls = [{"name": "note_line", "arguments": {"text": text}} for text in texts]
    model.reply(marker=marker, text="working on it", calls=calls, pieces=7, interleave=True, split_name=True)
    assert owner.chat(marker)["status"] == "done"
    for text in texts:
        assert len(butler.workshop.effects(text)) == 1


def test_a_tool_that_fails_tells_the_model_how(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    assert owner.chat(call("fail_line", text))["status"] == "done"
    assert "the tool broke on purpose" in results(model, text)[0]
    assert len(butler.workshop.effects(text)) == 1


def test_an_argument_is_text_for_the_tool_and_nothing_else(butler: ButlerServer, owner: Client) -> None:
    for text in (f"$(touch {fresh()})", "; rm -rf .", "{text} {other}", "--help", "'\"`\\"):
        assert owner.chat(call("note_line", text))["status"] == "done"
        assert [written for _, written in butler.workshop.effects(text)] == [text]


def test_twenty_calls_at_once_all_come_back_in_order(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    texts = [fresh(str(n)) for n in range(20)]
    assert owner.chat("".join(call("note_line", text) for text in texts))["status"] == "done"
    told = results(model, texts[0])
    assert [text in result for text, result in zip(texts, told, strict=True)] == [True] * 20


def test_an_empty_answer_ends_the_turn_and_the_next_one_works(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    outcome = owner.chat("[[empty]] " + fresh())
    assert outcome["status"] in ("done", "failed")
    assert owner.chat(fresh(), outcome["thread_id"])["status"] == "done"
