"""A maid can't get a secret of Butler's into the project behind the mask that a person sees (F2, D6)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.leaks import CHUNK, Leaks, leaks_of
from butler.maids.worktree import diff, prepare
from butler.redact import Redactor
from tests.support.headless import says
from tests.support.maid_brain import maid_brain
from tests.support.projects import make_project, write

TOKEN = "s3cret-t0ken-of-butler"
OLD: dict[str, str | bytes] = {"a.txt": "first\n", "known.txt": f"key = {TOKEN}\nx = 1\n", "blob": b"\0\1\2"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"new.txt": f"token: {TOKEN}\n"}, Leaks(1, 0)),
        ({"a.txt": f"{TOKEN}{TOKEN}\n", "b.txt": TOKEN}, Leaks(3, 0)),
        ({"a.txt": f"++ {TOKEN}\n"}, Leaks(1, 0)),
        ({"sub/blob": b"\0\1" + TOKEN.encode() + b"\0"}, Leaks(1, 0)),
        ({"blob": b"x" * (CHUNK - 5) + b"\0" + TOKEN.encode()}, Leaks(1, 0)),
        ({"a.txt": "y" * (CHUNK - 7) + TOKEN}, Leaks(1, 0)),
        ({"a.txt": "the model is llama3\n"}, Leaks(0, 1)),
        ({"a.txt": "nothing\n"}, Leaks()),
        ({"known.txt": f"key = {TOKEN}\nx = 2\n"}, Leaks()),
        ({"known.txt": f"KEY = {TOKEN}\nx = 1\n"}, Leaks()),
    ],
    ids=[
        "text",
        "thrice",
        "plus signs",
        "binary",
        "beyond a chunk",
        "across chunks",
        "word",
        "none",
        "beside",
        "moved",
    ],
)
async def test_secrets_are_counted_in_what_a_change_adds(
    tmp_path: Path, files: dict[str, str | bytes], found: Leaks
) -> None:
    project = make_project(tmp_path / "project", OLD)
    made = await prepare(project, tmp_path / "data" / "maids" / "run", include_uncommitted=True, number=1)
    write(made.tree, files)
    assert await leaks_of(await diff(made), made.tree, Redactor([TOKEN, "llama3"])) == found


async def test_a_secret_in_the_name_of_an_empty_file_counts(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", OLD)
    made = await prepare(project, tmp_path / "data" / "maids" / "run", include_uncommitted=True, number=1)
    write(made.tree, {TOKEN: ""})
    os.symlink("a.txt", made.tree / "link")
    assert (await leaks_of(await diff(made), made.tree, Redactor([TOKEN]))).violation() is not None


def test_a_short_secret_is_only_told_of() -> None:
    assert Leaks(0, 2).violation() is None and Leaks().note() is None
    assert (Leaks(0, 2).note() or "").startswith("2 place(s) shown as ***")


async def leaks(launch: Launch, watcher: Watcher) -> Finished:
    (launch.tree / "out.txt").write_text("done\nsecret-value\n")
    return Finished(0, claim="I did it")


async def test_work_with_a_secret_of_butlers_is_a_violation_and_nobody_is_asked(tmp_path: Path) -> None:
    delegate = ("delegate", {"intent": "work", "instruction": "make out.txt say done"}, "call-d")
    async with maid_brain(tmp_path, [leaks], says("", delegate), says("It failed")) as house:
        state = await house.brain.say("please")
        assert state["ending"]["reply"] == "It failed"
        [attempt] = await house.attempts()
        assert (attempt.status, attempt.failure_class) == ("failed", "policy_violation")
        assert "hold a secret" in attempt.evidence["failure"]["detail"]
        assert "secret-value" not in str(attempt.evidence)
        assert not (house.project / "out.txt").exists()
