"""Ten planted facts through three folds with a real model of 1.5 billion parameters.

It runs where BUTLER_TEST_WEIGHTS names a GGUF file, such as ``tests.real_model.weights`` fetches, and takes minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.folding import Summariser, run_butler
from tests.real_model.local_model import LocalModel
from tests.support.talks import ENGLISH

WEIGHTS = os.environ.get("BUTLER_TEST_WEIGHTS", "")
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.skipif(not WEIGHTS, reason="BUTLER_TEST_WEIGHTS names no weights; see tests/real_model/weights.py"),
]
LEAST_KEPT = 7


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LocalModel]:
    model = LocalModel(tmp_path, Path(WEIGHTS), 1000)
    model.start()
    yield model
    model.kill()


async def test_most_planted_facts_survive_three_folds_and_no_turn_waits(model: LocalModel) -> None:
    run = await run_butler(ENGLISH, Summariser("real", model.url, "local", 900), trigger=12)
    assert run.failed == 0 and run.folds >= 2
    assert run.kept >= LEAST_KEPT
    assert max(run.seconds) < 5
