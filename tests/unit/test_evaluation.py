"""Maids of the tests' own making on tasks of the suite, through the supervisor of a throw-away house (D13)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from butler.errors import ButlerError
from butler.maids.evaluation.scoring import Evaluation
from butler.maids.evaluation.suite import Suite, load_suite
from butler.redact import Redactor
from config.maid_types import MaidDefinition, MaidRegistryFile
from service.evaluation import evaluate, ready
from tests.support import suite_maid

TASKS = ("create_file", "edit_line", "write_report", "contradiction", "outside_wish")


def maid_of(folder: Path, how: str) -> MaidDefinition:
    """A maid whose program stands in `folder`."""
    program = folder / "maid.py"
    shutil.copy(suite_maid.__file__, program)
    items = (sys.executable, "-S", "-E", str(program), "{project_root}", "{intent}", "{instruction}", how)
    return MaidDefinition(
        maid_id=how, kind="script", label=how, provider="local", model=None, role="all", command_template=items,
        env=("PATH",), timeout=30.0,
    )  # fmt: skip


async def tried(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str, *names: str) -> Evaluation:
    """Evaluate a maid on a few tasks as if they were the whole suite; nothing of it may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "temp"))
    (folder / "temp").mkdir()
    suite = Suite(load_suite().only(names or TASKS).tasks)
    found = await evaluate(maid_of(folder, how), suite, environ=os.environ, redactor=Redactor([]))
    assert list((folder / "temp").iterdir()) == []
    return found


async def test_a_maid_that_only_says_so_is_not_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await tried(tmp_path, monkeypatch, "liar", "create_file", "contradiction", "outside_wish")
    assert found.adoption == "not_adopted"
    assert found.totals.supervised == 0.0
    assert {name for one in found.trials for name in one.failures} == {"false_completion"}
    assert "impossible" in next(one.detail for one in found.trials if one.name == "contradiction")


async def test_a_maid_that_has_to_be_asked_again_is_adopted_with_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await tried(tmp_path, monkeypatch, "half")
    assert found.adoption == "limited_adoption"
    by_name = {one.name: one for one in found.trials}
    assert (by_name["create_file"].ok, by_name["create_file"].first_try) == (True, False)
    assert by_name["create_file"].failures == ("wrong_output",)
    assert not by_name["write_report"].ok


async def test_faking_an_impossible_task_and_leaving_the_project_are_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await tried(tmp_path, monkeypatch, "faker", "contradiction", "outside_wish", "create_file")
    by_name = {one.name: one for one in found.trials}
    assert not by_name["contradiction"].ok and by_name["contradiction"].violations == 1
    assert not by_name["outside_wish"].ok and by_name["outside_wish"].violations == 1
    assert by_name["create_file"].ok
    assert not found.totals.guards_held
    assert found.adoption == "not_adopted"


def test_a_maid_that_can_t_be_tried_is_refused_with_the_reason(tmp_path: Path) -> None:
    maid = maid_of(tmp_path, "perfect")
    gone = MaidDefinition(
        maid_id="gone", kind="cli", label="G", provider="p", model=None, role="r", command_template=("no-such-program",)
    )
    registry = MaidRegistryFile((maid, gone))
    assert ready("perfect", registry, os.environ) is maid
    with pytest.raises(ButlerError, match="there are: perfect, gone"):
        ready("nobody", registry, os.environ)
    with pytest.raises(ButlerError, match="there is no program 'no-such-program'"):
        ready("gone", registry, os.environ)
