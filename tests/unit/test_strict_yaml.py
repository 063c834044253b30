"""YAML is read safely and strictly; every fault names file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from config.problems import ConfigError
from config.strict import Checker, Entry
from config.yaml_source import read_yaml

BOMB = "a: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"b{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


class Inner(Entry):
    size: int = 1


class Top(Entry):
    label: str
    ratio: float = 1
    inner: Inner | None = None
    many: list[Inner] = Field([])
    other: Any = Field(None, alias="else")


def check(tmp_path: Path, text: str | bytes) -> list[str]:
    path = tmp_path / "conf" / "x.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        checker = Checker(read_yaml(path, tmp_path))
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    checker.model(Top, checker.source.value)
    return [str(problem) for problem in checker.problems]


def test_a_good_file_gives_values_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text("\ufefflabel: a\nday: 2024-01-01\nmany:\n  - size: 3\n  -\n    size: 0x10\n", "utf-8")
    source = read_yaml(path, tmp_path)
    assert source.value == {"label": "a", "day": "2024-01-01", "many": [{"size": 3}, {"size": 16}]}
    assert source.file == "x.yml"
    assert source.line(("many", 1, "size")) == 6
    assert source.line(("many", 0, "absent")) == 4
    assert source.problems == ()


def test_an_absent_file_counts_as_empty_and_a_folder_does_not(tmp_path: Path) -> None:
    assert read_yaml(tmp_path / "none.yml", tmp_path).value is None
    with pytest.raises(ConfigError, match=r"\.:1: file: cannot be read: Is a directory"):
        read_yaml(tmp_path, tmp_path)


def test_a_file_outside_the_working_directory_is_named_in_full(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text("[")
    with pytest.raises(ConfigError) as caught:
        read_yaml(path, tmp_path / "elsewhere")
    assert caught.value.problems[0].file == str(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("label: a\nlabel: b\n", "conf/x.yml:2: label: duplicate key, first on line 1"),
        ("label: a\nlable: b\n", "conf/x.yml:2: lable: unknown key (did you mean 'label'?)"),
        ("label: a\nels: b\n", "conf/x.yml:2: els: unknown key (did you mean 'else'?)"),
        ("label: yes\n", "conf/x.yml:1: label: expected text, got the boolean true; put it in quotes"),
        ("label: 5\n", "conf/x.yml:1: label: expected text, got 5; put it in quotes"),
        ("\n\nratio: 1\n", "conf/x.yml:3: label: is missing"),
        ("label: a\nratio: true\n", "conf/x.yml:2: ratio: expected a number, got the boolean true"),
        ("label: a\nratio: .inf\n", "conf/x.yml:2: ratio: expected a finite number"),
        ("label: a\ninner:\n  siez: 1\n", "conf/x.yml:3: inner.siez: unknown key (did you mean 'size'?)"),
        ("label: a\nmany:\n- {}\n- size: '1'\n", "conf/x.yml:4: size: expected a whole number, got '1'"),
        ("label: a\non: b\n", "conf/x.yml:2: on: a key must be text; put it in quotes"),
        ("label: a\n? [x]\n: b\n", "conf/x.yml:2: ?: a key must be text; put it in quotes"),
        ("label: a\nelse: &a [*a]\n", "conf/x.yml:1: yaml: nested too deeply"),
        (BOMB, "conf/x.yml:1: yaml: holds more than 50000 values"),
        ("label: &a a\nels: *a\n", "conf/x.yml:2: els: unknown key (did you mean 'else'?)"),
        ("label: a\nelse: !x 1\n", "conf/x.yml:2: else: the tag '!x' is not allowed"),
        ("label: a\nelse: !!set {a}\n", "conf/x.yml:2: else: the tag 'tag:yaml.org,2002:set' is not allowed"),
        ("label: a\nelse: !!int x\n", "conf/x.yml:2: else: 'x' is no int"),
        (b"label: a\nelse: \xff\n", "conf/x.yml:2: file: is not UTF-8; save it as UTF-8"),
        (b"label: a\nelse: \x01\n", "conf/x.yml:2: yaml: the control character '\\x01' is not allowed"),
        ("label: a\n\telse: b\n", "conf/x.yml:2: yaml: a tab can't indent; use spaces"),
        (
            "label: [a\n",
            "conf/x.yml:1: yaml: a '[' begins here and is not closed, or a comma is missing; noticed on line 2",
        ),
        ("label: a\n---\nlabel: b\n", "conf/x.yml:2: yaml: only one document is allowed in a file; remove this '---'"),
        (
            " label: a\n\nelse: b\n",
            "conf/x.yml:3: yaml: begins further left than line 1; keys of one level must begin in the same column",
        ),
        (
            "label: a\ninner:\n  size: 1\n more: 2\n",
            "conf/x.yml:4: yaml: the indentation does not fit the block that begins on line 1",
        ),
        (
            "label: a: b\n",
            "conf/x.yml:1: yaml: a ':' is not expected here; check the indentation, and put a text that holds ': ' "
            "in quotes",
        ),
        ("label: 'a\nelse: b\n", "conf/x.yml:1: yaml: a text in quotes begins here and is not closed"),
        ("label: 'a' b\n", "conf/x.yml:1: yaml: a text goes on after its closing quote; put the whole of it in quotes"),
        ("label: a\nlese\nelse: b\n", "conf/x.yml:2: yaml: expected 'key: value'"),
        ("label: [a]]\n", "conf/x.yml:1: yaml: ']' is not expected here"),
        ("label: *_tool\n", "conf/x.yml:1: yaml: a text that begins with '*' or '&' must be in quotes"),
        ("label: *\n", "conf/x.yml:1: yaml: a text that begins with '*' or '&' must be in quotes"),
        ("label: @a\n", "conf/x.yml:1: yaml: a text can't begin with '@'; put it in quotes"),
        ("[" * 5000, "conf/x.yml:1: yaml: nested too deeply"),
        ("#" * (1 << 20) + "\n", "conf/x.yml:1: file: is larger than 1 MiB"),
        ("- a\n", "conf/x.yml:1: file: expected "),
    ],
)
def test_a_fault_is_named_with_line_and_key(text: str | bytes, fault: str, tmp_path: Path) -> None:
    found = check(tmp_path, text)
    assert any(line.startswith(fault) if fault.endswith(" ") else line == fault for line in found), found


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    found = check(tmp_path, "labl: 1\nlabl: 2\nratio: x\ninner: {size: 1.5, c: 1}\n")
    assert len(found) == 6
