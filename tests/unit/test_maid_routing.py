"""Which maid a task goes to: the first route whose conditions hold, with a trail that explains each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.errors import ButlerError
from butler.maids.conditions import Facts, Health, ProjectFiles, Success, examine, needs_files
from butler.maids.routing import route
from config.maid_types import Endpoint, MaidDefinition, MaidRegistryFile, RetryPolicy, RouteDefinition
from config.routes_file import always_first


def a_maid(maid_id: str, **keys: Any) -> MaidDefinition:
    return MaidDefinition(maid_id, "cli", maid_id, keys.pop("provider", ""), None, "", ("x",), **keys)


REGISTRY = MaidRegistryFile((a_maid("one"), a_maid("two"), a_maid("off", enabled=False)))
SMALL = RouteDefinition("implement", None, {"max_instruction_chars": 5}, source="r.yml:2")
PYTHON = RouteDefinition("implement", "one", {"files_match": ["*.py"]}, RetryPolicy(2), "r.yml:4")
REST = RouteDefinition("implement", "two", {}, source="r.yml:6")


def test_the_first_route_that_holds_wins_and_the_trail_tells_of_each() -> None:
    facts = Facts("implement", "a long instruction", Path("/p"), ProjectFiles(("a.c", "b.py")))
    routed = route(facts, [SMALL, PYTHON, REST], REGISTRY)
    assert (routed.outcome, routed.route) == ("delegated", PYTHON)
    assert routed.maid is REGISTRY.maids[0]
    assert [(tried.route.source, tried.outcome, tried.reason) for tried in routed.trail] == [
        ("r.yml:2", "did_not_hold", "max_instruction_chars: wanted at most 5 characters, found 18"),
        ("r.yml:4", "won", "files_match: wanted a file like *.py, found b.py"),
        ("r.yml:6", "came_later", "an earlier route has won"),
    ]
    assert routed.reason == "The route at r.yml:4 gives it to one: files_match: wanted a file like *.py, found b.py."
    assert routed.document()["trail"][0]["conditions"] == [
        {"name": "max_instruction_chars", "wanted": "at most 5 characters", "actual": "18", "holds": False}
    ]


def test_a_route_without_a_maid_is_not_delegated() -> None:
    routed = route(Facts("implement", "tiny"), [SMALL, REST], REGISTRY)
    assert (routed.outcome, routed.maid, routed.route) == ("not_delegated", None, SMALL)
    assert routed.reason == (
        "The route at r.yml:2 says not to delegate: max_instruction_chars: wanted at most 5 characters, found 4."
    )


def test_no_route_that_holds_and_an_unknown_intent_are_told_apart() -> None:
    routed = route(Facts("implement", "a long instruction"), [SMALL], REGISTRY)
    assert (routed.outcome, len(routed.trail)) == ("no_route", 1)
    routed = route(Facts("implemnt", "x"), [SMALL, RouteDefinition("format", "one")], REGISTRY)
    assert routed.outcome == "unknown_intent"
    assert routed.reason == (
        "There is no route for the intent 'implemnt' (did you mean 'implement'?). The intents are: implement, format."
    )
    assert "has no routes at all" in route(Facts("x", "x"), [], REGISTRY).reason


def test_a_maid_that_a_person_names_goes_before_all_routes() -> None:
    routed = route(Facts("implement", "tiny", maid_id="one"), [SMALL, PYTHON, REST], REGISTRY)
    assert (routed.outcome, routed.maid, routed.route) == ("delegated", REGISTRY.maids[0], PYTHON)
    assert route(Facts("anything", "tiny", maid_id="two"), [SMALL], REGISTRY).route is None
    for name, code in (("on", "not_found"), ("off", "invalid_request")):
        with pytest.raises(ButlerError) as caught:
            route(Facts("implement", "tiny", maid_id=name), [SMALL], REGISTRY)
        assert caught.value.code == code


def test_a_route_to_a_disabled_or_unknown_maid_never_wins() -> None:
    for maid_id in ("off", "who"):
        routed = route(Facts("a", "x"), [RouteDefinition("a", maid_id), RouteDefinition("a", "one")], REGISTRY)
        assert routed.maid is REGISTRY.maids[0]
        assert routed.trail[0].outcome == "did_not_hold"


FACTS = Facts(
    "a", "x" * 10, Path("/srv/ann/projects/app"), ProjectFiles(("a.py", "b.c")), {"lang": "de", "n": 3, "x": True},
    {"one": Health(True), "two": Health(False, "no program")}, {"one": Success(4, 3), "two": Success(10, 2)},
    {"one": "limited_adoption"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("conditions", "maid_id", "holds"),
    [
        ({"min_instruction_chars": 10}, None, True),
        ({"min_instruction_chars": 11}, None, False),
        ({"max_instruction_chars": 10}, None, True),
        ({"max_instruction_chars": 9}, None, False),
        ({"project": ["/x", "/srv/ann/projects/*"]}, None, True),
        ({"project": ["~/projects/*"]}, None, True),
        ({"project": ["~"]}, None, False),
        ({"project": ["/srv/ann/projects"]}, None, False),
        ({"files_match": ["*.rs", "*.c"]}, None, True),
        ({"files_match": ["*.rs"]}, None, False),
        ({"files_count_min": 2, "files_count_max": 2}, None, True),
        ({"files_count_min": 3}, None, False),
        ({"files_count_max": 1}, None, False),
        ({"parameters": {"lang": "d*", "n": 3, "x": True}}, None, True),
        ({"parameters": {"lang": ["en", "de"]}}, None, True),
        ({"parameters": {"n": True}}, None, False),
        ({"parameters": {"gone": "*"}}, None, False),
        ({"healthy": True}, "one", True),
        ({"healthy": True}, "two", False),
        ({"min_success_rate": 0.75, "min_runs": 4}, "one", True),
        ({"min_success_rate": 0.8, "min_runs": 4}, "one", False),
        ({"min_success_rate": 0.8, "min_runs": 5}, "one", True),
        ({"adoption": ["limited_adoption", "default_candidate"]}, "one", True),
        ({"adoption": ["default_candidate"]}, "one", False),
        ({"adoption": ["default_candidate"]}, "two", False),
    ],
)
def test_each_condition_holds_when_it_says_so(
    conditions: dict[str, Any], maid_id: str | None, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/srv/ann")
    found = examine(RouteDefinition("a", maid_id, conditions), REGISTRY.maid(maid_id or ""), FACTS)
    assert all(condition.holds for condition in found) is holds
    assert all(condition.wanted and condition.actual for condition in found)


@pytest.mark.parametrize("conditions", [{"project": ["*"]}, {"files_match": ["*"]}, {"files_count_max": 9}])
def test_what_is_not_known_does_not_hold(conditions: dict[str, Any]) -> None:
    bare = RouteDefinition("a", "one", conditions)
    assert not any(condition.holds for condition in examine(bare, REGISTRY.maids[0], Facts("a", "x")))
    assert needs_files(bare) == ("project" not in conditions)


def test_more_files_than_were_looked_at_are_never_at_most_so_many() -> None:
    facts = Facts("a", "x", files=ProjectFiles(("a", "b"), is_cut=True))
    [most] = examine(RouteDefinition("a", None, {"files_count_max": 2}), None, facts)
    assert (most.holds, most.actual) == (False, "more than 2")


@pytest.mark.parametrize(
    ("maid", "local"),
    [
        (a_maid("m", provider="local_script"), True),
        (a_maid("m", provider="Ollama"), True),
        (a_maid("m", endpoint=Endpoint("http://127.0.0.1:11434")), True),
        (a_maid("m", provider="ollama", endpoint=Endpoint("https://api.example")), False),
        (a_maid("m", provider="grok"), False),
        (a_maid("m"), False),
    ],
)
def test_local_only_means_that_the_row_shows_it(maid: MaidDefinition, local: bool) -> None:
    [found] = examine(RouteDefinition("a", "m", {"local_only": True}), maid, Facts("a", "x"))
    assert found.holds is local


LENGTHS = st.integers(0, 6)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "min_instruction_chars": LENGTHS,
        "max_instruction_chars": LENGTHS,
        "files_count_max": LENGTHS,
        "parameters": st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", "*", 1]), min_size=1),
        "healthy": st.just(True),
    },
)
ROUTES = st.lists(
    st.builds(RouteDefinition, st.sampled_from(["i", "j"]), st.sampled_from([None, "one", "two"]), CONDITIONS),
    max_size=6,
)
ANY_FACTS = st.builds(
    lambda size, files, parameters, one, two: Facts(
        "i", "x" * size, None, ProjectFiles(("f",) * files), parameters, {"one": Health(one), "two": Health(two)}
    ),
    LENGTHS, LENGTHS, st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", "y", 1])),
    st.booleans(), st.booleans(),
)  # fmt: skip


@given(ROUTES, ANY_FACTS)
def test_whatever_the_routes_the_first_that_holds_wins_and_each_is_named(
    routes: list[RouteDefinition], facts: Facts
) -> None:
    own = [item for item in routes if item.intent == "i"]
    holding = [
        item for item in own if all(c.holds for c in examine(item, REGISTRY.maid(item.maid_id or ""), facts))
    ]  # fmt: skip
    routed = route(facts, routes, REGISTRY)
    assert [tried.route for tried in routed.trail] == own
    assert routed.route is (holding[0] if holding else None)
    assert [tried.outcome for tried in routed.trail].count("won") == bool(holding)
    assert all(tried.reason for tried in routed.trail)
    if holding:
        assert routed.outcome == ("delegated" if holding[0].maid_id else "not_delegated")
    else:
        assert routed.outcome == ("no_route" if own else "unknown_intent")


@given(ROUTES, ANY_FACTS)
def test_a_route_that_is_called_unreachable_never_wins(routes: list[RouteDefinition], facts: Facts) -> None:
    routed = route(facts, routes, REGISTRY)
    for place, tried in enumerate(routed.trail):
        if any(always_first(earlier.route, tried.route) for earlier in routed.trail[:place]):
            assert tried.outcome != "won"
