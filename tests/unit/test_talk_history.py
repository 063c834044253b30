"""The history of a talk: for one person alone, without secrets, never in the way."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from service.cli.talk.history import MOST_LINES, KeptHistory


def test_lines_come_back_newest_first_whatever_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "shell" / "history"
    for line in ("one", "two\nlines", "漢字 \u2028"):
        KeptHistory(path, lambda _: False).store_string(line)
    assert list(KeptHistory(path, lambda _: False).load_history_strings()) == ["漢字 \u2028", "two\nlines", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.touch(0o644)
    KeptHistory(path, lambda _: False).store_string("x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_and_very_long_lines_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = KeptHistory(path, lambda line: "secret" in line)
    for line in ("a secret", " ", "x" * 30_000):
        history.store_string(line)
    assert not path.exists()


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"{json.dumps(str(n))}\n" for n in range(3 * MOST_LINES)))
    assert len(list(KeptHistory(path, lambda _: False).load_history_strings())) == MOST_LINES
    assert len(path.read_text().splitlines()) == MOST_LINES


def test_a_broken_file_or_a_folder_in_its_place_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('{"a": 1}\nno json\n"good"\n')
    assert list(KeptHistory(path, lambda _: False).load_history_strings()) == ["good"]
    history = KeptHistory(tmp_path, lambda _: False)
    history.store_string("x")
    assert list(history.load_history_strings()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tmp_path / "history").symlink_to(other)
    KeptHistory(tmp_path / "history", lambda _: False).store_string("x")
    assert not other.exists()
    other.write_text('"a line of something else"\n')
    assert list(KeptHistory(tmp_path / "history", lambda _: False).load_history_strings()) == []


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history")
    history = KeptHistory(tmp_path / "history", lambda _: False)
    history.store_string("x")
    assert list(history.load_history_strings()) == []
