"""A tool that allows itself may still ask; it never allows what a rule or its verdict forbids (A3, C6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from butler.approvals.actions import Action
from butler.approvals.policy import Policy
from butler.errors import ConfigError
from butler.people import Principal
from butler.redact import Redactor
from butler.types import Occasion, Verdict
from config.policy_file import PolicyFile
from config.settings import load_settings
from service.policy_review import review
from service.wiring import read_configuration
from tests.support.headless import open_brain, says
from tests.support.parts import ADMIN, MIA, registry, rule, tool


def asks(occasion: Occasion) -> str | None:
    return "odd" if "odd" in occasion.args["text"] else None


def breaks(occasion: Occasion) -> str | None:
    raise ValueError("no idea")


async def verdicts(home: Path, own: Verdict, text: str, *rules: str, person: Principal = MIA) -> list[Action]:
    picky = replace(tool("picky", own), own_ruling=breaks if text == "break" else asks)
    made = [rule(verdict, "picky", verdict) for verdict in rules]  # type: ignore[arg-type]
    async with open_brain(home, says("", ("picky", {"text": text})), says("done"), tools=[picky], rules=made) as brain:
        await brain.say("go", person)
        return await brain.pending()


async def test_it_asks_the_person_who_is_spoken_with(tmp_path: Path) -> None:
    [asked] = await verdicts(tmp_path, "allow", "an odd one")
    assert asked.reason == "odd"
    assert asked.may_be_decided_by(MIA) and asked.may_be_decided_by(ADMIN)


async def test_without_a_reason_it_runs(tmp_path: Path) -> None:
    assert await verdicts(tmp_path, "allow", "plain") == []


async def test_a_ruling_that_fails_asks(tmp_path: Path) -> None:
    [asked] = await verdicts(tmp_path, "allow", "break")
    assert "ValueError: no idea" in asked.reason


@pytest.mark.parametrize(("own", "rules"), [("refuse", ()), ("allow", ("refuse",)), ("allow", ("allow",))])
async def test_rules_and_stricter_verdicts_are_left_alone(tmp_path: Path, own: Verdict, rules: tuple[str, ...]) -> None:
    assert await verdicts(tmp_path, own, "an odd one", *rules) == []


async def test_a_rule_for_all_tools_does_not_speak_for_the_text(tmp_path: Path) -> None:
    picky = replace(tool("picky", "allow"), own_ruling=asks)
    rules = [rule("all", "*", "allow"), rule("some", "pick*", "allow")]
    said = says("", ("picky", {"text": "an odd one"})), says("done")
    async with open_brain(tmp_path, *said, tools=[picky], rules=rules) as brain:
        await brain.say("go", MIA)
        [asked] = await brain.pending()
    assert (asked.reason, asked.rule) == ("odd", "default")


def test_a_declared_tool_may_not_take_the_name_of_a_built_in_one(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "tools.yml").write_text(
        "tools:\n  - name: remember\n    description: x\n    input_schema: {type: object}\n    command: [ls]\n"
    )
    with pytest.raises(ConfigError) as refusal:
        read_configuration(load_settings({}, tmp_path), {})
    [problem] = refusal.value.problems
    assert refusal.value.code == "duplicate_governed_tool"
    assert "tools.yml:2" in str(problem) and "built-in" in str(problem)


async def test_what_it_asked_about_is_no_change_when_recorded_calls_are_looked_at(tmp_path: Path) -> None:
    await verdicts(tmp_path, "allow", "an odd one")
    picky = replace(tool("picky", "allow"), own_ruling=asks)
    found = review(tmp_path / "butler.db", 10, Policy(PolicyFile()), registry(picky), Redactor([]))
    assert (found.looked_at, found.changes) == (1, ())
