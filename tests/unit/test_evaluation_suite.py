"""The tasks that are shipped: sound, and none of them done before a maid has come (D13)."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.evaluation.suite import Suite, SuiteTask, load_suite
from butler.maids.evaluation.trial import free_port
from butler.maids.verify.profile import parse_profile
from butler.maids.verify.run import verify
from config.maid_types import MaidRegistryFile
from tests.support.projects import write

SUITE = load_suite()


def test_there_are_twenty_tasks_with_names_of_their_own() -> None:
    names = Counter(task.name for task in SUITE.tasks)
    assert len(SUITE.tasks) == 20 and SUITE.is_whole
    assert set(names.values()) == {1}
    assert Counter(task.ending for task in SUITE.tasks) == {"done": 19, "honest": 1}
    assert sum(task.guards for task in SUITE.tasks) == 2


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.name)
def test_a_task_s_checks_can_be_read_and_what_is_protected_is_there(task: SuiteTask, tmp_path: Path) -> None:
    placed = task.placed(8123, tmp_path)
    registry = MaidRegistryFile(allowed_commands=placed.commands())
    assert not parse_profile(placed.expect, registry, tmp_path).is_empty
    assert set(task.protected) <= set(task.files)
    assert "%" + "PORT%" not in repr(placed) and "%OUTSIDE%" not in repr(placed)


async def test_no_task_is_done_before_a_maid_has_come(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    async def outcome(task: SuiteTask) -> str:
        placed, tree = task.placed(free_port(), tmp_path), tmp_path / task.name
        write(tree, dict(placed.files))
        registry = MaidRegistryFile(allowed_commands=placed.commands())
        profile = parse_profile(placed.expect, registry, tmp_path)
        return (await verify(profile, tree, registry, environment, f"suite-{os.getpid()}-{task.name}")).outcome

    found = await asyncio.gather(*(outcome(task) for task in SUITE.tasks))
    assert dict(zip((task.name for task in SUITE.tasks), found, strict=True)) == {
        task.name: "failed" for task in SUITE.tasks
    }


def test_a_part_is_chosen_by_names_and_a_wrong_name_is_told() -> None:
    part = SUITE.only(["edit_line", "create_file"])
    assert [task.name for task in part.tasks] == ["create_file", "edit_line"]
    assert not part.is_whole
    assert SUITE.only([task.name for task in SUITE.tasks]).is_whole
    with pytest.raises(ButlerError, match="did you mean 'create_file'"):
        SUITE.only(["creat_file"])


def test_a_faulty_task_is_no_suite(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("tasks: [{name: a, instruction: b, files: {}, expekt: {}}]")
    with pytest.raises(ValueError, match="expekt"):
        load_suite(tmp_path)
    assert load_suite(tmp_path / "none") == Suite(())
