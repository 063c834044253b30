"""intent_maid_routes.yml: the contract's example loads, faults name line and nearest name, no route is unreachable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.maid_types import MaidDefinition, MaidRegistryFile, RetryPolicy, RouteDefinition
from config.problems import ConfigError
from config.published import published_schemas
from config.routes_file import always_first, load_routes_file

GOOD = """
routes:                               # file order, first whose conditions hold
  - intent: implement
    maid_id: null                     # null: not delegated
    conditions_json: {max_instruction_chars: 80}
  - intent: implement
    maid_id: goose_grok
    conditions_json: {project: "~/projects/*", files_match: ["**/*.py"]}
    retry_policy_json: {max_attempts: 3, retry_on: [no_changes, wrong_output, false_completion]}
"""


def a_maid(maid_id: str, *, enabled: bool = True) -> MaidDefinition:
    return MaidDefinition(maid_id, "cli", maid_id, "", None, "", ("x",), enabled=enabled, source="maid_registry.yml:9")


REGISTRY = MaidRegistryFile((a_maid("goose_grok"), a_maid("formatter"), a_maid("old_maid", enabled=False)))


def load(tmp_path: Path, text: str, registry: MaidRegistryFile | None = REGISTRY) -> tuple[RouteDefinition, ...]:
    path = tmp_path / "intent_maid_routes.yml"
    path.write_text(text, "utf-8")
    routes = load_routes_file(path, registry, cwd=tmp_path)
    schema = Draft202012Validator(json.loads(published_schemas()["intent_maid_routes.schema.json"]))
    assert schema.is_valid(yaml.safe_load(text))
    return routes


def faults(tmp_path: Path, *routes: str, registry: MaidRegistryFile | None = REGISTRY) -> list[str]:
    """The faults of a file with one route a line, from line 2 on."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "routes:\n" + "".join(f"  - {{{route}}}\n" for route in routes), registry)
    return [str(problem).removeprefix("intent_maid_routes.yml:") for problem in caught.value.problems]


def test_the_example_of_the_contract_loads_as_it_stands(tmp_path: Path) -> None:
    small, delegated = load(tmp_path, GOOD)
    assert (small.intent, small.maid_id, small.retry_policy) == ("implement", None, None)
    assert small.conditions == {"max_instruction_chars": 80}
    assert delegated.maid_id == "goose_grok"
    assert delegated.conditions == {"project": ["~/projects/*"], "files_match": ["**/*.py"]}
    assert delegated.retry_policy == RetryPolicy(3, ("no_changes", "wrong_output", "false_completion"))
    assert (small.source, delegated.source) == ("intent_maid_routes.yml:3", "intent_maid_routes.yml:6")


def test_an_absent_or_empty_file_has_no_routes(tmp_path: Path) -> None:
    assert load_routes_file(tmp_path / "none.yml", REGISTRY) == ()
    assert load(tmp_path, "routes: []\n") == ()


def test_every_condition_is_read_as_data(tmp_path: Path) -> None:
    [route] = load(
        tmp_path,
        "routes:\n- intent: a\n  maid_id: formatter\n  conditions_json: {min_instruction_chars: 0,"
        " project: ['/a/*', '*b'], files_match: '*.py', files_count_min: 1, files_count_max: 9,"
        " parameters: {lang: [de, 'f*'], n: 3, x: true},"
        " healthy: true, min_success_rate: 1, adoption: [default_candidate], local_only: true}\n"
        "  retry_policy_json: {}\n",
    )
    assert route.conditions == {
        "min_instruction_chars": 0, "project": ["/a/*", "*b"], "files_match": ["*.py"], "files_count_min": 1,
        "files_count_max": 9, "parameters": {"lang": ["de", "f*"], "n": 3, "x": True}, "healthy": True,
        "min_success_rate": 1, "min_runs": 5, "adoption": ["default_candidate"], "local_only": True,
    }  # fmt: skip
    assert route.retry_policy == RetryPolicy(3, None)


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("intent: a, maid_id: goose_gork", "2: maid_id: there is no maid 'goose_gork' in maid_registry.yml "
         "(did you mean 'goose_grok'?)"),
        ("intent: a, maid_id: old_maid", "2: maid_id: the maid 'old_maid' is disabled at maid_registry.yml:9; "
         "enable it or name another"),
        ("intent: a", "2: maid_id: is missing"),
        ("intent: a, maid_id: null, condition_json: {}", "2: condition_json: unknown key (did you mean "
         "'conditions_json'?)"),
        ("intent: a, maid_id: null, conditions_json: {max_instruction_char: 1}", "2: conditions_json."
         "max_instruction_char: unknown key (did you mean 'max_instruction_chars'?)"),
        ("intent: a, maid_id: null, conditions_json: {max_instruction_chars: many}", "2: conditions_json."
         "max_instruction_chars: expected a whole number, got 'many'"),
        ("intent: a, maid_id: null, conditions_json: {min_instruction_chars: 9, max_instruction_chars: 8}",
         "2: conditions_json.min_instruction_chars: is more than max_instruction_chars (8), so the route can never "
         "win"),
        ("intent: a, maid_id: null, conditions_json: {project: work}", "2: conditions_json.project[0]: 'work' can't "
         "match an absolute path; begin it with '/', '~/' or '*'"),
        ("intent: a, maid_id: null, conditions_json: {healthy: true}", "2: conditions_json.healthy: is about a maid, "
         "but maid_id is null"),
        ("intent: a, maid_id: null, retry_policy_json: {}", "2: retry_policy_json: has a meaning only with a maid, but "
         "maid_id is null"),
        ("intent: a, maid_id: formatter, conditions_json: {min_runs: 2}", "2: conditions_json.min_runs: has a meaning "
         "only with min_success_rate"),
        ("intent: a, maid_id: formatter, conditions_json: {parameters: {a: []}}", "2: conditions_json.parameters.a: "
         "expected a glob, a list of globs, a number or a boolean"),
        ("intent: a, maid_id: formatter, retry_policy_json: {max_attempts: 11}", "2: retry_policy_json.max_attempts: "
         "expected less than or equal to 10, got 11"),
    ],
)  # fmt: skip
def test_a_fault_names_line_key_and_what_was_meant(tmp_path: Path, route: str, expected: str) -> None:
    assert faults(tmp_path, route) == [expected]


def test_an_unknown_failure_class_or_adoption_names_the_nearest_one(tmp_path: Path) -> None:
    [told] = faults(tmp_path, "intent: a, maid_id: formatter, retry_policy_json: {retry_on: [no_change]}")
    assert told.startswith("2: retry_policy_json.retry_on[0]: expected one of launch_error, ")
    assert told.endswith("got 'no_change' (did you mean 'no_changes'?)")
    [told] = faults(tmp_path, "intent: a, maid_id: formatter, conditions_json: {adoption: [default_candidat]}")
    assert told.endswith("(did you mean 'default_candidate'?)")


def test_a_faulty_registry_makes_no_maid_unknown(tmp_path: Path) -> None:
    assert load(tmp_path, "routes: [{intent: a, maid_id: who}]", None)[0].maid_id == "who"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", "{}"),
        ("", "{max_instruction_chars: 5}"),
        ("{max_instruction_chars: 80}", "{max_instruction_chars: 80, project: '/x'}"),
        ("{max_instruction_chars: 80}", "{max_instruction_chars: 10}"),
        ("{min_instruction_chars: 10, files_count_max: 9}", "{min_instruction_chars: 10, files_count_max: 8}"),
        ("{project: ['/a', '/b']}", "{project: '/b'}"),
        ("{parameters: {a: x}}", "{parameters: {a: x, b: y}}"),
        ("{min_success_rate: 0.5}", "{min_success_rate: 0.7, min_runs: 3}"),
    ],
)
def test_a_route_behind_one_that_always_wins_is_a_fault(tmp_path: Path, first: str, second: str) -> None:
    one, two = (
        f"intent: a, maid_id: formatter{f', conditions_json: {conditions}' if conditions else ''}"
        for conditions in (first, second)
    )
    assert faults(tmp_path, one, "intent: b, maid_id: null", two) == [
        "4: intent: can never win: the route at intent_maid_routes.yml:2 comes first and holds whenever this one does"
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{max_instruction_chars: 80}", "{}"),
        ("{max_instruction_chars: 80}", "{max_instruction_chars: 81}"),
        ("{project: '/a'}", "{project: ['/a', '/b']}"),
        ("{project: '*'}", "{}"),
        ("{parameters: {a: 1}}", "{parameters: {a: true}}"),
        ("{min_success_rate: 0.5}", "{min_success_rate: 0.7, min_runs: 9}"),
        ("{adoption: [default_candidate]}", "{adoption: [limited_adoption]}"),
    ],
)
def test_a_route_that_can_still_win_is_none(tmp_path: Path, first: str, second: str) -> None:
    lines = "".join(
        f"  - {{intent: a, maid_id: formatter, conditions_json: {conditions}}}\n" for conditions in (first, second)
    )
    assert len(load(tmp_path, f"routes:\n{lines}")) == 2


def test_a_condition_on_one_maid_says_nothing_about_another() -> None:
    earlier = RouteDefinition("a", "formatter", {"healthy": True})
    assert always_first(earlier, RouteDefinition("a", "formatter", {"healthy": True}))
    assert not always_first(earlier, RouteDefinition("a", "goose_grok", {"healthy": True}))
