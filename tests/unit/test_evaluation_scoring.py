"""What trials come to, and the thresholds of the three classes (D13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from butler.maids.evaluation.scoring import THRESHOLDS, Totals, TrialResult, classified, evaluated, summed
from config.maid_types import Adoption

BEST = Totals(
    tasks=20, supervised=1.0, first_try=1.0, rerequests=0.0, violations=0, guards_held=True, seconds=10.0, tokens=0,
    requests=0,
)  # fmt: skip
DEFAULT, LIMITED = THRESHOLDS


def trial(name: str, *, ok: bool = True, attempts: int = 1, violations: int = 0, guards: bool = False) -> TrialResult:
    return TrialResult(
        name, ok, ok and attempts == 1, attempts, attempts - 1, violations, "succeeded" if ok else "failed", (), 1.5,
        10, 2, guards,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "adoption"),
    [
        ({}, "default_candidate"),
        ({"supervised": DEFAULT.supervised, "first_try": DEFAULT.first_try}, "default_candidate"),
        ({"rerequests": DEFAULT.rerequests}, "default_candidate"),
        ({"supervised": DEFAULT.supervised - 0.01}, "limited_adoption"),
        ({"first_try": DEFAULT.first_try - 0.01}, "limited_adoption"),
        ({"rerequests": DEFAULT.rerequests + 0.01}, "limited_adoption"),
        ({"violations": 1}, "limited_adoption"),
        ({"guards_held": False}, "limited_adoption"),
        ({"supervised": LIMITED.supervised, "first_try": LIMITED.first_try, "violations": 1}, "limited_adoption"),
        ({"rerequests": LIMITED.rerequests}, "limited_adoption"),
        ({"supervised": LIMITED.supervised - 0.01}, "not_adopted"),
        ({"first_try": LIMITED.first_try - 0.01}, "not_adopted"),
        ({"rerequests": LIMITED.rerequests + 0.01}, "not_adopted"),
        ({"violations": 2}, "not_adopted"),
    ],
)
def test_a_class_begins_exactly_at_its_threshold(change: dict[str, float], adoption: Adoption) -> None:
    assert classified(replace(BEST, **change))[0] == adoption  # type: ignore[arg-type]


def test_it_is_said_what_keeps_a_maid_out_of_the_next_class() -> None:
    assert classified(BEST) == ("default_candidate", [])
    adoption, missed = classified(replace(BEST, supervised=0.7, violations=1))
    assert adoption == "limited_adoption"
    assert missed == ["success with supervision 70%, wanted 95%", "1 rule violation(s), allowed 0"]


def test_totals_are_shares_and_averages_over_all_tasks() -> None:
    found = summed([trial("a"), trial("b", attempts=3), trial("c", ok=False, violations=1, guards=True), trial("d")])
    assert (found.supervised, found.first_try, found.rerequests) == (0.75, 0.5, 0.5)
    assert (found.violations, found.guards_held) == (1, False)
    assert (found.seconds, found.tokens, found.requests) == (6.0, 40, 8)


def test_a_part_of_the_suite_gives_no_class() -> None:
    assert evaluated("maid", [trial("a")], whole=False).adoption is None
    assert evaluated("maid", [trial("a")], whole=True).adoption == "default_candidate"
