"""Call ids and tool names that no provider should send are made harmless before anything stores them (A5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.think import SOUND_ID
from tests.support.headless import open_brain, says

ODD_IDS = ["", "c\ud800", "x" * 100_000, "with space", "ünïcode", "a/b", "c\n"]


@pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: ascii(odd[:10]))
async def test_an_odd_call_id_is_replaced_and_the_call_runs(tmp_path: Path, odd: str) -> None:
    call = ("free", {"text": "a"}, odd)
    async with open_brain(tmp_path, says("", call, call), says("done"), on_disk=True) as brain:
        state = await brain.say("write a twice")
        assert state["ending"]["reply"] == "done" and brain.journal.lines == ["a", "a"]
        asked = next(message for message in brain.model.heard[-1] if message.get("tool_calls"))
        ids = [made["id"] for made in asked["tool_calls"]]
        assert len(set(ids)) == 2 and all(SOUND_ID.fullmatch(made) for made in ids)
        assert [m["tool_call_id"] for m in brain.model.heard[-1] if m["role"] == "tool"] == ids


@pytest.mark.parametrize("sound", ["c1", "call_" + "a" * 59, "A-b_9"])
async def test_a_sound_id_stays(tmp_path: Path, sound: str) -> None:
    async with open_brain(tmp_path, says("", ("free", {"text": "a"}, sound)), says("done")) as brain:
        await brain.say("write a")
        assert [m["tool_call_id"] for m in brain.model.heard[-1] if m["role"] == "tool"] == [sound]


@pytest.mark.parametrize("name", ["n" * 1_000_000, "na\ud800me"], ids=["long", "half a character"])
async def test_an_odd_tool_name_is_an_unknown_tool(tmp_path: Path, name: str) -> None:
    async with open_brain(tmp_path, says("", (name, {})), says("sorry"), on_disk=True) as brain:
        state = await brain.say("go")
        assert state["ending"]["reply"] == "sorry"
        asked = next(message for message in brain.model.heard[-1] if message.get("tool_calls"))
        assert len(asked["tool_calls"][0]["function"]["name"]) <= 128
        [result] = [m["content"] for m in brain.model.heard[-1] if m["role"] == "tool"]
        assert len(result) < 1000
