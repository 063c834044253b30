"""What is read from the checkpoint file is data: nothing in it is imported or called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from graph.persistence import open_checkpoints


@dataclass
class Odd:
    """No plain JSON."""

    name: str


async def test_an_object_in_a_checkpoint_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", False)
    planted = JsonPlusSerializer().dumps_typed({"messages": [Odd("one")]})
    assert JsonPlusSerializer().loads_typed(planted) == {"messages": [Odd("one")]}
    async with open_checkpoints(tmp_path / "checkpoints.db") as saver:
        for reader in (saver.serde, saver._head.serde):
            assert not isinstance(reader.loads_typed(planted)["messages"][0], Odd)
