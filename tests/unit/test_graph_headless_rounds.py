"""Calls of one message side by side: a call that is approved runs at once, whatever its siblings do (A5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from butler.types import Invocation, Json, ModelReply, ToolResult, ToolSpec, Verdict
from nodes.rounds import Round
from tests.support.headless import Brain, open_brain, says
from tests.support.parts import tool

T = TypeVar("T")


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, 20)


@dataclass
class Gate:
    """A tool that tells when it was entered and stays inside until it is let go."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    times: int = 0

    async def run(self, call: Invocation) -> ToolResult:
        """The effect."""
        self.times += 1
        self.entered.set()
        await self.release.wait()
        return ToolResult(f"{call.tool} is through")


def gates(**verdicts: Verdict) -> tuple[dict[str, Gate], list[ToolSpec]]:
    made = {name: Gate() for name in verdicts}
    return made, [tool(name, verdict, made[name].run) for name, verdict in verdicts.items()]


def lines(*names: str) -> tuple[ModelReply, ModelReply]:
    return says("", *((name, {"text": name}) for name in names)), says("done")


def asked(state: Json) -> list[str]:
    return sorted(entry.value["action_requests"][0]["name"] for entry in state.get("__interrupt__", []))


async def approve(brain: Brain, name: str) -> None:
    """What the service does: the decision is written, then whoever waits is woken."""
    [action] = [one for one in await brain.pending() if one.tool == name]
    await brain.decide(action, "approve")
    brain.round.stir()


async def test_an_approved_call_doesnt_wait_for_one_that_still_runs(tmp_path: Path) -> None:
    gate, specs = gates(slow="allow", asked="approve")
    gate["asked"].release.set()
    async with open_brain(tmp_path, *lines("slow", "asked"), tools=specs) as brain:
        turn = asyncio.create_task(brain.say("go"))
        await soon(gate["slow"].entered.wait())
        await approve(brain, "asked")
        await soon(gate["asked"].entered.wait())
        assert not turn.done()
        gate["slow"].release.set()
        state = await soon(turn)
        assert asked(state) == [] and state["ending"]["reply"] == "done"
        assert (gate["slow"].times, gate["asked"].times) == (1, 1)


async def test_what_nobody_decided_while_a_sibling_ran_parks_after_it(tmp_path: Path) -> None:
    gate, specs = gates(slow="allow", one="approve", two="approve")
    gate["one"].release.set()
    gate["two"].release.set()
    async with open_brain(tmp_path, *lines("one", "slow", "two"), tools=specs) as brain:
        turn = asyncio.create_task(brain.say("go"))
        await soon(gate["slow"].entered.wait())
        await approve(brain, "two")
        await soon(gate["two"].entered.wait())
        gate["slow"].release.set()
        assert asked(await soon(turn)) == ["one"]
        await approve(brain, "one")
        assert (await soon(brain.go()))["ending"]["reply"] == "done"
        assert [gate[name].times for name in ("slow", "one", "two")] == [1, 1, 1]


async def test_a_slow_approved_call_keeps_no_other_waiting(tmp_path: Path) -> None:
    gate, specs = gates(one="approve", two="approve")
    gate["two"].release.set()
    async with open_brain(tmp_path, *lines("one", "two"), tools=specs) as brain:
        assert asked(await soon(brain.say("go"))) == ["one", "two"]
        await approve(brain, "one")
        turn = asyncio.create_task(brain.go())
        await soon(gate["one"].entered.wait())
        await approve(brain, "two")
        await soon(gate["two"].entered.wait())
        gate["one"].release.set()
        assert (await soon(turn))["ending"]["reply"] == "done"
        assert (gate["one"].times, gate["two"].times) == (1, 1)


async def test_a_wake_that_was_lost_costs_time_and_nothing_else(tmp_path: Path) -> None:
    gate, specs = gates(slow="allow", asked="approve")
    gate["asked"].release.set()
    async with open_brain(tmp_path, *lines("slow", "asked"), tools=specs) as brain:
        turn = asyncio.create_task(brain.say("go"))
        await soon(gate["slow"].entered.wait())
        [action] = await brain.pending()
        await brain.decide(action, "approve")  # and nobody stirs
        gate["slow"].release.set()
        state = await soon(turn)
        assert asked(state) == [] and gate["asked"].times == 1


async def test_a_turn_that_is_cancelled_while_calls_wait_and_run_stops(tmp_path: Path) -> None:
    gate, specs = gates(slow="allow", one="approve", two="approve")
    async with open_brain(tmp_path, *lines("slow", "one", "two"), tools=specs) as brain:
        turn = asyncio.create_task(brain.say("go"))
        await soon(gate["slow"].entered.wait())
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(turn)
        assert len(await brain.pending()) == 2
        assert not brain.round.others_at_work


async def test_a_sibling_that_fails_outright_keeps_nobody_waiting_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, specs = gates(slow="allow", asked="approve")
    async with open_brain(tmp_path, *lines("slow", "asked"), tools=specs) as brain:

        async def fail(*_: object) -> None:
            raise OSError("the disk is full")

        monkeypatch.setattr(type(brain.faculties.ledger), "finish", fail)
        turn = asyncio.create_task(brain.say("go"))
        await soon(gate["slow"].entered.wait())
        gate["slow"].release.set()
        with pytest.raises(OSError, match="disk is full"):
            await soon(turn)


async def test_a_change_between_the_look_and_the_wait_is_not_missed() -> None:
    calls = Round()
    with calls.taking_part(), calls.taking_part():
        version = calls.version
        calls.stir()
        await soon(calls.changed_since(version))
        assert calls.others_at_work


async def test_those_who_only_wait_are_not_at_work() -> None:
    calls = Round()
    with calls.taking_part(), calls.taking_part(), calls.taking_part():
        waiting = [asyncio.create_task(calls.changed_since(calls.version)) for _ in range(2)]
        await asyncio.sleep(0)
        at_work = [calls.others_at_work]
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        at_work.append(calls.others_at_work)
        calls.stir()
        await soon(waiting[1])
        assert at_work == [False, True]
