"""Refuse beats approve beats allow; no rule: grant, the tool's own verdict, the default; failures ask."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.approvals.policy import Policy, args_match, classify, safe_classify
from butler.globs import compile_glob, covers
from butler.types import Ruling, Verdict
from config.policy_file import PolicyFile, RuleDefinition
from tests.support.parts import tool


def rule(name: str, tool: str, verdict: Verdict, **more: Any) -> RuleDefinition:
    fields: dict[str, Any] = {
        "args": {},
        "reason": None,
        "risk": None,
        "deciders": None,
        "expires_in": None,
        "source": f"policy.yml:{len(name)}",
    }
    return RuleDefinition(name=name, tool=tool, verdict=verdict, **{**fields, **more})


def policy(*rules: RuleDefinition, default: Verdict = "approve") -> Policy:
    return Policy(PolicyFile(default, rules))


def verdict_of(subject: Policy, tool: str, own: Verdict | None = None, **args: Any) -> tuple[str, str]:
    ruling = classify(subject, tool, args, own_verdict=own)
    return ruling.verdict, ruling.rule


CONTRACT = policy(
    rule("never-touch-prod", "delete_*", "refuse", args={"target": "prod-*"}, reason="Production is off limits"),
    rule(
        "deletes-need-an-admin",
        "delete_*",
        "approve",
        reason="Deleting cannot be undone",
        risk="dangerous",
        deciders=("admin",),
        expires_in=3600.0,
    ),
)


def test_the_example_of_the_contract_refuses_production_and_asks_for_the_rest() -> None:
    assert verdict_of(CONTRACT, "delete_box", target="prod-1") == ("refuse", "never-touch-prod")
    ruling = classify(CONTRACT, "delete_box", {"target": "dev-1"}, own_verdict="allow")
    assert ruling == Ruling(
        verdict="approve",
        rule="deletes-need-an-admin",
        reason="Deleting cannot be undone",
        risk="dangerous",
        deciders=("admin",),
        expires_in=3600.0,
        matched=("deletes-need-an-admin",),
    )
    assert verdict_of(CONTRACT, "delete_box") == ("approve", "deletes-need-an-admin")


def test_the_first_rule_of_the_strictest_verdict_names_the_reason() -> None:
    subject = policy(
        rule("a", "*", "allow", reason="one"),
        rule("b", "x*", "approve", reason="two", deciders=("ada",)),
        rule("c", "x", "approve", reason="three", expires_in=1.0),
    )
    ruling = classify(subject, "x", {}, own_verdict=None)
    assert (ruling.rule, ruling.reason, ruling.deciders, ruling.expires_in) == ("b", "two", ("ada",), None)
    assert ruling.matched == ("a", "b", "c")
    explanation = subject.explain("x", {}, own_verdict=None)
    assert explanation.winner is not None
    assert (explanation.winner.name, [found.name for found in explanation.matched]) == ("b", ["a", "b", "c"])


@pytest.mark.parametrize(
    ("own", "grant", "default", "expected"),
    [
        (None, None, "approve", ("approve", "default")),
        (None, None, "refuse", ("refuse", "default")),
        ("allow", None, "refuse", ("allow", "default")),
        ("refuse", ("g1", "granted by ada"), "approve", ("allow", "grant:g1")),
    ],
)
def test_without_a_rule_grant_then_own_verdict_then_default_speak(
    own: Verdict | None, grant: tuple[str, str] | None, default: Verdict, expected: tuple[str, str]
) -> None:
    subject = policy(rule("other", "y", "refuse"), default=default)
    ruling = classify(subject, "x", {}, own_verdict=own, grant=grant)
    assert (ruling.verdict, ruling.rule) == expected
    assert ruling.reason
    assert ruling.matched == ()


def test_a_grant_never_beats_a_rule() -> None:
    grant = ("g", "granted")
    assert classify(policy(rule("r", "x", "refuse")), "x", {}, own_verdict="allow", grant=grant).verdict == "refuse"
    assert classify(policy(rule("r", "x", "approve")), "x", {}, own_verdict="allow", grant=grant).verdict == "approve"


@pytest.mark.parametrize(("verdict", "risk"), [("allow", "safe"), ("approve", "dangerous"), ("refuse", "forbidden")])
def test_a_risk_that_is_not_given_follows_the_verdict(verdict: Verdict, risk: str) -> None:
    assert classify(policy(rule("r", "x", verdict)), "x", {}, own_verdict=None).risk == risk
    given_one = policy(rule("r", "x", verdict, risk="cross_hub"))
    assert classify(given_one, "x", {}, own_verdict=None).risk == "cross_hub"
    assert classify(policy(default=verdict), "x", {}, own_verdict=None).risk == risk


@pytest.mark.parametrize(
    ("glob", "value", "matches"),
    [
        ("prod-*", "prod-\n1", True),
        ("prod-*", "PROD-1", False),
        ("*", "", True),
        ("5", 5, True),
        ("true", True, True),
        ("null", None, True),
        ('*"b":1*', {"b": 1, "a": [2]}, True),
        ('{"a":[[]2],"b":1}', {"b": 1, "a": [2]}, True),
        ("a?c", "abc", True),
        ("a[xy]c", "ayc", True),
        ("a[", "a[", True),
        ("a[!x]c", "axc", False),
        ("abc", "abcd", False),
    ],
)
def test_arguments_match_by_the_text_of_their_value(glob: str, value: object, matches: bool) -> None:
    subject = policy(rule("r", "x", "refuse", args={"a": glob}), default="allow")
    assert (verdict_of(subject, "x", a=value)[0] == "refuse") is matches
    assert args_match({"a": glob}, {"a": value}) is matches


def test_a_missing_argument_does_not_match_even_a_star() -> None:
    assert verdict_of(policy(rule("r", "x", "refuse", args={"a": "*"})), "x", b=1) == ("approve", "default")
    assert not args_match({"a": "*"}, {})
    assert args_match({}, {})


def test_tools_of_servers_match_by_prefix() -> None:
    subject = policy(rule("r", "files__*", "allow"))
    assert verdict_of(subject, "files__read") == ("allow", "r")
    assert verdict_of(subject, "filesread") == ("approve", "default")


def test_a_glob_with_many_stars_never_tries_a_place_twice() -> None:
    # Each piece between stars is found once and kept: an atomic group, or the search grows without bound.
    compiled = fnmatch.translate("*a" * 30 + "*b")
    assert compiled.count("(?>.*?a)") == 30
    assert not compile_glob("*a" * 30 + "*b")("a" * 20_000)


def test_a_classifier_that_raises_asks_with_the_failure_as_reason() -> None:
    subject = policy(rule("r", "x", "allow", args={"a": "*1"}), default="allow")
    ruling = safe_classify(subject, "x", {"a": float("nan")}, own_verdict="allow", grant=("g", "r"))
    assert (ruling.verdict, ruling.rule) == ("approve", "default")
    assert "could not be evaluated" in ruling.reason
    assert "ValueError" in ruling.reason
    assert safe_classify(subject, "x", {"a": 1}, own_verdict=None).verdict == "allow"


def test_a_rule_for_a_mistyped_tool_is_named_and_one_for_a_tool_to_come_is_not() -> None:
    subject = policy(rule("a", "apend_line", "allow"), rule("b", "wholly_other", "allow"), rule("c", "x_*", "allow"))
    (problem,) = subject.mistaken_tools(["append_line", "remember"])
    assert str(problem) == "policy.yml:1: tool: there is no tool 'apend_line' (did you mean 'append_line'?)"


OPEN = tool("delete_open", schema={"type": "object", "properties": {"target": {}}})
CLOSED = tool("append_line")
PATTERNED = tool("tag_it", schema={"type": "object", "patternProperties": {"^x-": {}}, "additionalProperties": False})


@pytest.mark.parametrize(
    ("glob", "faulty"),
    [("append_line", True), ("append_*", True), ("*", False), ("delete_*", False), ("tag_it", False), ("new_*", False)],
)
def test_an_argument_that_no_tool_of_a_rule_can_have_is_a_fault(glob: str, faulty: bool) -> None:
    subject = policy(rule("no-keys", glob, "refuse", args={"txt": "*KEY*"}))
    problems = [str(problem) for problem in subject.mistaken_args([OPEN, CLOSED, PATTERNED])]
    fault = f"policy.yml:7: args.txt: no tool that {glob!r} matches has this argument (did you mean 'text'?)"
    assert problems == ([fault] if faulty else [])
    assert policy(rule("r", glob, "refuse", args={"text": "*"})).mistaken_args([CLOSED]) == ()


def test_a_rule_that_matches_no_tool_is_useless_but_no_fault() -> None:
    subject = policy(rule("a", "claer_*", "refuse"), rule("b", "append_*", "allow"), rule("cc", "other", "allow"))
    assert subject.mistaken_tools(["append_line"]) == ()
    assert [str(found) for found in subject.useless_rules(["append_line", "clear_journal"])] == [
        "policy.yml:1: a: can never win: no tool matches 'claer_*'",
        "policy.yml:2: cc: can never win: no tool matches 'other'",
    ]


@pytest.mark.parametrize(
    ("rules", "unreachable"),
    [
        ([("a", "*", "approve", {}), ("b", "x", "allow", {})], {"b": "a"}),
        ([("b", "x", "allow", {}), ("a", "*", "approve", {})], {"b": "a"}),
        ([("a", "x", "approve", {}), ("b", "x*", "allow", {})], {}),
        ([("a", "x*", "refuse", {}), ("b", "xy*", "refuse", {"t": "1"})], {"b": "a"}),
        ([("b", "xy*", "refuse", {}), ("a", "x*", "refuse", {})], {}),
        ([("a", "x", "refuse", {"t": "*"}), ("b", "x", "approve", {})], {}),
        ([("a", "x", "refuse", {"t": "*"}), ("b", "x", "approve", {"t": "1*", "u": "2"})], {"b": "a"}),
        ([("a", "x", "refuse", {"t": "1*"}), ("b", "x", "approve", {"t": "*"})], {}),
    ],
)
def test_only_a_rule_that_can_never_win_is_named(rules: list[Any], unreachable: dict[str, str]) -> None:
    subject = policy(*(rule(name, tool, verdict, args=args) for name, tool, verdict, args in rules))
    assert {found.rule.name: found.by.name for found in subject.unreachable_rules()} == unreachable
    assert all("can never win" in str(found) for found in subject.unreachable_rules())


GLOBS = st.text("ab*?[]!", min_size=1, max_size=6)
WORDS = st.text("ab[]!", max_size=6)
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(["allow", "approve", "refuse"])
RULES = st.lists(
    st.tuples(GLOBS, VERDICTS, st.dictionaries(st.sampled_from(["p", "q"]), GLOBS, max_size=2)), max_size=6
)
CALL_ARGS = st.dictionaries(st.sampled_from(["p", "q"]), WORDS, max_size=2)


def build(rules: list[tuple[str, Verdict, dict[str, str]]], default: Verdict = "approve") -> Policy:
    return policy(*(rule(str(n), tool, v, args=a) for n, (tool, v, a) in enumerate(rules)), default=default)


def oracle(
    rules: list[tuple[str, Verdict, dict[str, str]]], tool: str, args: Mapping[str, str]
) -> tuple[Verdict, str] | None:
    """The text of the contract, written a second time and plainly."""
    for wanted in ("refuse", "approve", "allow"):
        for number, (glob, verdict, globs) in enumerate(rules):
            if verdict != wanted or not fnmatch.fnmatchcase(tool, glob):
                continue
            if all(key in args and fnmatch.fnmatchcase(args[key], globs[key]) for key in globs):
                return verdict, str(number)
    return None


@given(RULES, WORDS, CALL_ARGS, st.none() | VERDICTS, VERDICTS, st.booleans())
def test_refuse_beats_approve_beats_allow_for_any_rules(
    rules: list[tuple[str, Verdict, dict[str, str]]],
    tool: str,
    args: dict[str, str],
    own: Verdict | None,
    default: Verdict,
    granted: bool,
) -> None:
    grant = ("g", "granted") if granted else None
    ruling = classify(build(rules, default), tool, args, own_verdict=own, grant=grant)
    without_rule = ("allow", "grant:g") if granted else (own or default, "default")
    assert (ruling.verdict, ruling.rule) == (oracle(rules, tool, args) or without_rule)


@given(RULES, WORDS, CALL_ARGS)
def test_a_rule_named_unreachable_never_wins(
    rules: list[tuple[str, Verdict, dict[str, str]]], tool: str, args: dict[str, str]
) -> None:
    subject = build(rules)
    named = {found.rule.name for found in subject.unreachable_rules()}
    assert classify(subject, tool, args, own_verdict=None).rule not in named


@given(GLOBS, GLOBS, WORDS)
def test_a_covering_glob_matches_whatever_the_covered_one_does(wide: str, narrow: str, text: str) -> None:
    if covers(wide, narrow) and compile_glob(narrow)(text):
        assert compile_glob(wide)(text)


@pytest.mark.parametrize("narrow", ["[!]", "[]", "[", "[]a", "[!]a"])
def test_brackets_that_do_not_close_are_no_class(narrow: str) -> None:
    assert compile_glob(narrow)(narrow)
    assert covers("?", narrow) is (len(narrow) == 1)


@given(GLOBS)
def test_a_star_covers_every_glob_and_every_glob_itself(glob: str) -> None:
    assert covers("*", glob)
    assert covers(glob, glob)
