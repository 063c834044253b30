"""The hardened prompt says everything a maid must know, and the task can't break out of its place (D5)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from butler.maids.contract import Task
from butler.maids.prompt import SUBSTITUTES, hardened_prompt
from butler.maids.quoting import delimited, one_line, quoted
from butler.redact import Redactor
from config.maid_types import CommandCheck, ExactOutput, FileCheck, HttpCheck, VerificationProfile

TREE = Path("/data/maids/1/tree")
TASK = Task("m1", "implement", "Add a greeting.\nIn two lines.", Path("/project"), ("Keep it small", "No new files"))
PROFILE = VerificationProfile(
    (FileCheck("out.txt", contains="hello\tworld"), FileCheck("tmp.log", exists=False), FileCheck("a.py")),
    (CommandCheck(("make", "test")),),
    (HttpCheck("http://127.0.0.1:8000/", 200, "hello"),),
    (
        ExactOutput("a\n", path="b.txt"),
        ExactOutput("c", url="http://127.0.0.1:8000/c"),
        ExactOutput("d", command=("e",)),
    ),
    start=("python3", "serve.py"),
)


def prompt(task: Task = TASK, profile: VerificationProfile = PROFILE, path: str = "", *secrets: str) -> str:
    return hardened_prompt(task, TREE, profile, path=path, redactor=Redactor(secrets))


def test_it_names_place_task_constraints_forbidden_acts_and_checks() -> None:
    text = prompt()
    assert f"# Project root\n{TREE}\n" in text and "/project\n" not in text
    assert "Add a greeting.\nIn two lines." in text and "- Keep it small\n- No new files" in text
    for act in ("install", "leave the project root", "ask questions", "start servers", "commit, push"):
        assert act in text
    for check in (
        '"out.txt" contains "hello\\tworld"', 'no file "tmp.log"', '["make", "test"] exits with 0',
        '"http://127.0.0.1:8000/" answers with status 200 and a body that contains "hello"', "outside",
        'the file "b.txt" is exactly "a\\n"', '"http://127.0.0.1:8000/c" is exactly "c"', '["e"] is exactly "d"',
        '["python3", "serve.py"]; do not start it yourself',
    ):  # fmt: skip
        assert check in text
    assert "Your word is no proof" in text


def test_without_checks_it_says_that_a_person_looks() -> None:
    assert "There is no automatic check. A person looks" in prompt(profile=VerificationProfile())


def test_a_program_that_is_not_there_has_a_substitute_and_one_that_is_there_is_not_spoken_of(tmp_path: Path) -> None:
    for name in SUBSTITUTES:
        if name != "tree":
            (tmp_path / name).write_text("")
            (tmp_path / name).chmod(0o755)
    text = prompt(path=os.fspath(tmp_path))
    assert "`tree` is not there; use `find" in text and "`jq`" not in text
    assert "not there;" not in prompt(path="")


def test_secrets_in_the_task_are_masked() -> None:
    task = Task("m1", "implement", "Use the key sk-secret-123.", Path("/project"), ("key sk-secret-123",))
    assert "sk-secret-123" not in prompt(task, PROFILE, "", "sk-secret-123")


def test_many_and_long_checks_are_bounded() -> None:
    many = VerificationProfile(tuple(FileCheck(f"f{n}", contains="x" * 100_000) for n in range(500)))
    text = prompt(profile=many)
    assert len(text) < 120_000 and "and 460 more" in text


@given(st.text())
def test_a_text_can_not_end_its_own_quotation(text: str) -> None:
    whole = delimited("task", text)
    tag = re.match(r"<(task-[0-9a-f]{10})>\n", whole)
    assert tag is not None and tag[1] not in text
    assert delimited("task", whole) != whole
    assert all(line.startswith(">") for line in quoted(text, 100).splitlines())
    assert len(one_line(text, 20)) <= 20 and "\n" not in one_line(text, 20)
