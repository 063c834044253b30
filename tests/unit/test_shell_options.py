"""Options of the approval commands: grants in words, lengths of time, edited arguments, wrong combinations."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from butler.errors import ButlerError
from service.cli import run
from service.cli.approvals import is_code
from service.cli.editor import edit_arguments, read_arguments
from service.cli.exits import worst
from service.cli.grantwish import in_shell_words, seconds, wish


@pytest.mark.parametrize(
    ("text", "value"), [("90", 90), ("90s", 90), ("1.5h", 5400), ("15m", 900), ("15 min", 900), ("7D", 604_800)]
)
def test_lengths_of_time_are_read(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "8x", "nan", "1e9"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)


def test_a_grant_without_patterns_leaves_them_to_the_server() -> None:
    assert wish("thread", (), False, False, "", None, False) == {"scope": "thread"}


def test_a_grant_says_exactly_what_was_typed() -> None:
    made = wish("user", ["text=Buy *", 'argv=["git", "*"]', "class=[ab]*"], False, True, "8h", 3, True)
    assert made == {
        "scope": "user", "args": {"text": "Buy *", "argv": ["git", "*"], "class": "[ab]*"}, "closed": True,
        "expires_in": 28_800, "uses": 3, "confirm": True,
    }  # fmt: skip
    assert wish("everyone", (), True, False, "", None, True) == {"scope": "everyone", "args": {}, "confirm": True}


@pytest.mark.parametrize(
    "options",
    [
        (None, ["a=b"], False, False, "", None, False),
        (None, (), False, False, "8h", None, False),
        (None, (), False, False, "", None, True),
        ("user", ["a"], False, False, "", None, False),
        ("user", ["a=1", "a=2"], False, False, "", None, False),
        ("user", ["a=1"], True, False, "", None, False),
    ],
)
def test_grant_options_that_mean_nothing_are_refused(options: Any) -> None:
    with pytest.raises(typer.BadParameter):
        wish(*options)


def test_the_worst_of_several_ends_is_the_exit_status() -> None:
    assert worst([]) == 0
    assert worst([0, 3]) == 3
    assert worst([3, 2]) == 2
    assert worst([2, 4]) == 4
    assert worst([4, 5, 0]) == 5


@pytest.mark.parametrize(("name", "code"), [("K7QF2", True), ("k7qf2", True), ("", False), ("O0O0O", False),
                                            ("e046a99a-bd50-4d41-9458-8bb7a333ebd9", False)])  # fmt: skip
def test_codes_are_told_from_ids(name: str, code: bool) -> None:
    assert is_code(name) is code


@pytest.mark.parametrize(
    "arguments",
    [
        ["approve"],
        ["approve", "AAAAA", "BBBBB", "--edit"],
        ["approve", "AAAAA", "BBBBB", "--grant", "user"],
        ["approve", "AAAAA", "BBBBB", "--fingerprint", "x"],
        ["approve", "AAAAA", "--edit", "--args", "{}"],
        ["approve", "AAAAA", "--args", "{}", "--grant", "user"],
        ["approve", "AAAAA", "--args", "[]"],
        ["approve", "AAAAA", "--args", '{"a": 1, "a": 2}'],
        ["approve", "AAAAA", "--match", "a=b"],
        ["approve", "AAAAA", "--grant", "nobody"],
        ["deny"],
        ["respond", "AAAAA"],
        ["approvals", "--status", "odd"],
        ["grants", "revoke"],
    ],
)
def test_wrong_usage_ends_with_2_before_any_server_is_asked(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUTLER_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("BUTLER_TOKEN", "none")
    assert run(arguments) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err


def editor(path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that runs this code on the file `path`."""
    path.write_text(f"import os, pathlib, stat, sys\npath = pathlib.Path(sys.argv[1])\n{code}\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} -S {path}")


def test_arguments_are_edited_in_a_file_for_this_person_only_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    code = f"""
mode = stat.S_IMODE(path.stat().st_mode) | stat.S_IMODE(path.parent.stat().st_mode) << 9
pathlib.Path({str(seen)!r}).write_text(f"{{mode}} {{path}}")
path.write_text(path.read_text().replace("a", "b"))"""
    editor(tmp_path / "editor.py", code, monkeypatch)
    assert edit_arguments({"args": {"text": "aX\u202e"}}, False) == {"text": "bX\u202e"}
    mode, _, path = seen.read_text().partition(" ")
    assert int(mode) == 0o600 | 0o700 << 9
    assert stat.S_IMODE(int(mode)) == 0o600
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("code", "masked", "error"),
    [
        ("", False, "invalid_request"),
        ("path.write_text('{')", False, "invalid_request"),
        ("path.write_text('[1]')", False, "invalid_request"),
        ("path.write_bytes(b'\\xff')", False, "invalid_request"),
        ('path.write_text(\'{"text": "new", "key": "***"}\')', True, "invalid_request"),
        ("sys.exit(1)", False, "editor_failed"),
    ],
)
def test_an_edit_that_is_none_decides_nothing(
    code: str, masked: bool, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path / "editor.py", code, monkeypatch)
    with pytest.raises(ButlerError) as caught:
        edit_arguments({"args": {"text": "a", "key": "***"}}, masked)
    assert caught.value.code == error
    assert "Nothing was decided" in caught.value.detail


def test_an_editor_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor --wait")
    with pytest.raises(ButlerError) as caught:
        edit_arguments({"args": {}}, False)
    assert "'no-such-editor'" in caught.value.detail


def test_arguments_are_read_exactly() -> None:
    assert read_arguments('{"n": 12345678901234567890}') == {"n": 12345678901234567890}
    with pytest.raises(ButlerError):
        read_arguments('{"n": NaN}')


def test_commands_can_be_completed_by_the_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_BUTLER_COMPLETE": "complete_bash", "COMP_WORDS": "butler app", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    assert run([]) == 0
    assert set(capsys.readouterr().out.split()) == {"approvals", "approve"}


def test_grant_options_without_a_scope_name_the_option_of_that_command() -> None:
    for option in ("--grant", "--scope"):
        with pytest.raises(typer.BadParameter, match=f"say with {option} for whom"):
            wish(None, ["text=Foo*"], False, False, "", None, False, option=option)


def test_what_the_server_says_about_a_wide_grant_is_told_with_the_options_of_the_shell() -> None:
    said = ButlerError("invalid_request", "needs `confirm: true`", problem={"needs": ["confirm"]})
    told = in_shell_words(said, "K7QF2", {"scope": "everyone"})
    assert "--confirm" in told.detail and "butler grants preview K7QF2 --scope everyone" in told.detail
    assert "confirm: true" not in told.detail
    other = ButlerError("not_found", "gone")
    assert in_shell_words(other, "K7QF2", {"scope": "everyone"}) is other
