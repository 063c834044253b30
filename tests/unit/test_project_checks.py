"""Checks of a task in a project that has a registry of its own may use the house's allowed scripts too (D8, D12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.desk import Desk
from config.maids_file import load_maids_file
from config.projects_file import load_projects_file

PROJECTS = "projects:\n  - {name: shop, project_root: ROOT, config_dir: shop}\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root, config = tmp_path / "shop", tmp_path / "config"
    root.mkdir()
    (config / "shop").mkdir(parents=True)
    for folder, name in ((config, "house.py"), (config / "shop", "own.py"), (config / "shop", "other.py")):
        (folder / name).write_text("")
        row = f"allowed_commands: [[python3, {name}]]\n"
        (folder / "maid_registry.yml").write_text(row + (f"project_roots: [{root}]\n" if folder == config else ""))
    (config / "shop" / "maid_registry.yml").write_text("allowed_commands: [[python3, own.py]]\n")
    (config / "projects.yml").write_text(PROJECTS.replace("ROOT", str(root)))
    registry = load_maids_file(config / "maid_registry.yml")
    return Desk(registry, (), config, None, load_projects_file(config / "projects.yml", registry, ()))


@pytest.mark.parametrize(("script", "is_allowed"), [("own.py", True), ("house.py", True), ("other.py", False)])
def test_a_script_of_the_house_is_found_where_the_house_allows_it(desk: Desk, script: str, is_allowed: bool) -> None:
    task = {"intent": "work", "instruction": "do it", "expect": {"test_commands": [["python3", script]]}}
    if not is_allowed:
        with pytest.raises(ButlerError, match="not in allowed_commands"):
            desk.read(task)
        return
    assert desk.read(task).expect == task["expect"]
