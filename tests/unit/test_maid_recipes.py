"""The recipes of docs/maids.md are registry rows that can be loaded, and the thresholds there are those in force."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from butler.maids.evaluation.scoring import THRESHOLDS
from config.maids_file import load_maids_file

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "maids.md").read_text("utf-8")
RECIPES = [block for block in re.findall(r"```yaml\n(.*?)```", TEXT.partition("## Recipes")[2], re.DOTALL)
           if block.startswith("maids:")]  # fmt: skip


@pytest.mark.parametrize("block", RECIPES, ids=lambda block: yaml.safe_load(block)["maids"][0]["maid_id"])
def test_a_recipe_is_a_sound_registry(block: str, tmp_path: Path) -> None:
    path = tmp_path / "maid_registry.yml"
    path.write_text(block)
    assert load_maids_file(path).maids


def test_every_agent_of_the_table_has_a_recipe() -> None:
    found = {row["maid_id"] for block in RECIPES for row in yaml.safe_load(block)["maids"]}
    assert found == {"goose", "goose_run", "codex", "opencode", "qwen", "pi", "claude", "gemini", "aider", "mini"}


def test_the_thresholds_of_the_document_are_those_in_force() -> None:
    for threshold in THRESHOLDS:
        line = next(one for one in TEXT.splitlines() if one.startswith(f"| `{threshold.adoption}` |"))
        cells = [cell.strip() for cell in line.split("|")[2:]]
        assert cells[0] == f"{threshold.supervised * 100:g} % or more"
        assert cells[1] == f"{threshold.first_try * 100:g} % or more"
        assert cells[2] == f"{threshold.rerequests:g} or fewer"
        assert cells[3] == {0: "none", 1: "one at most"}[threshold.violations]
