"""A reply on a page: words at once, blocks set when they are complete, nothing lost, nothing that steers."""

from __future__ import annotations

import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from service.cli.talk.page import Page
from service.cli.talk.screen import markdown
from service.cli.talk.words import clipped, harmless, tool_line, widest

UP = re.compile(r"\r(?:\x1b\[(\d+)A)?\x1b\[J")


class Paper:
    """What a page writes, as a screen would hold it: rows of text, with blocks written over."""

    def __init__(self, columns: int = 40, lines: int = 20, *, sets: bool = True) -> None:
        self.columns, self.lines = columns, lines
        self.out = io.StringIO()
        render = (lambda block, _width: f"[{block.strip()}]\n") if sets else None
        self.page = Page(self.out, lambda: (self.columns, self.lines), render)

    @property
    def rows(self) -> list[str]:
        rows = [""]
        for piece in re.split(r"(\r(?:\x1b\[\d+A)?\x1b\[J|\n)", self.out.getvalue()):
            if match := UP.fullmatch(piece):
                del rows[len(rows) - int(match[1] or 0) :]
                rows[-1:] = [""] if int(match[1] or 0) == 0 else [*rows[-1:]][:1]
                rows[-1] = ""
            elif piece == "\n":
                rows.append("")
            else:
                rows[-1] += piece
        return rows


def test_a_block_is_set_once_it_is_complete_and_the_words_before_that_are_gone() -> None:
    paper = Paper()
    paper.page.text("one\ntwo")
    assert paper.rows == ["one", "two"]
    paper.page.text("\n\nthree")
    paper.page.settle()
    assert paper.rows == ["[one", "two]", "", "[three]", ""]


def test_long_lines_are_broken_by_the_page_itself_so_that_it_can_go_back() -> None:
    paper = Paper(columns=10)
    paper.page.text("x" * 25)
    assert max(map(len, paper.rows)) == 9
    paper.page.settle()
    assert paper.rows == [f"[{'x' * 25}]", ""]


def test_wide_signs_count_as_two() -> None:
    paper = Paper(columns=10)
    paper.page.text("漢字" * 10)
    assert max(map(len, paper.rows)) == 4


def test_a_block_taller_than_the_window_stays_as_it_came() -> None:
    paper = Paper(lines=4)
    paper.page.text("```\n" + "line\n" * 9 + "```")
    paper.page.settle()
    assert "\x1b[J" not in paper.out.getvalue()
    assert paper.rows.count("line") == 9


def test_a_window_that_changes_its_width_leaves_the_words() -> None:
    paper = Paper()
    paper.page.text("some words")
    paper.columns = 20
    paper.page.settle()
    assert paper.rows == ["some words", ""]


def test_a_list_with_blank_lines_and_a_fence_are_one_block_each() -> None:
    paper = Paper()
    paper.page.text("1. a\n\n   more\n\n2. b\n\nend\n\n```\nx\n\ny\n```\n\nlast")
    paper.page.settle()
    said = [row for row in paper.rows if row]
    assert [row for row in said if row.startswith("[")] == ["[1. a", "[end]", "[```", "[last]"]


def test_a_line_beside_the_reply_is_cut_to_the_window_and_ends_the_block() -> None:
    paper = Paper(columns=20)
    paper.page.text("words")
    paper.page.note("a tool that says very much indeed")
    assert paper.rows == ["[words]", "a tool that says v…", ""]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("ab 漢\n-`#*1.\t\x1b\u202e", max_size=12), max_size=12), st.integers(4, 30))
def test_in_whatever_pieces_it_comes_nothing_is_lost(pieces: list[str], columns: int) -> None:
    for sets in (True, False):
        paper = Paper(columns, sets=sets)
        for piece in pieces:
            paper.page.text(piece)
        paper.page.settle()
        shown = re.sub(r"[\s\[\]]", "", "".join(paper.rows))
        assert shown == re.sub(r"\s", "", harmless("".join(pieces)))
        assert paper.rows[-1] == ""


class Like:
    """A console with colours."""

    color_system, no_color = "standard", False


@settings(max_examples=60, deadline=None)
@given(st.text("ab *_`<>&[]()!#-1.|~\n\x1b\u202ehtp:/", max_size=60), st.integers(2, 60))
def test_real_markdown_writes_colours_and_nothing_else(text: str, width: int) -> None:
    set_text = markdown(Like())(harmless(text), width)
    assert re.sub(r"\x1b\[[\d;]*m", "", set_text).replace("\n", "").isprintable()
    assert set_text.endswith("\n")


def test_joined_pictures_and_foreign_spaces_stay_and_everything_that_steers_is_an_escape() -> None:
    assert harmless("👩\u200d👧 ❤\ufe0f a\u00a0b\u3000c\td\r\n") == "👩\u200d👧 ❤\ufe0f a\u00a0b\u3000c    d\n"
    assert harmless("\x1b[2J\x07\u202e\u2066\x9b") == "\\u001b[2J\\u0007\\u202e\\u2066\\u009b"
    assert (widest("a"), widest("漢"), widest("\ufe0f"), widest("\u0301")) == (1, 2, 1, 0)
    assert clipped("漢字漢字", 5) == "漢字…"


def test_what_a_tool_says_stands_on_one_line() -> None:
    line = tool_line({"tool": "t", "args": {"a": "b\n\x1b[2J"}, "phase": "failed", "result": "no\nway\x07"})
    assert line == "t failed: no\\nway\\u0007"
    assert tool_line({"tool": "t", "args": {}, "verdict": "refuse", "phase": "proposed"}) == "t() is refused"
    assert tool_line({"tool": "t", "args": {}, "verdict": "approve", "phase": "proposed"}) is None


def test_what_markdown_turns_into_a_direction_mark_is_shown_as_an_escape() -> None:
    shown = markdown(Like())(
        "see &#x202e;gnp.exe &#8203;&#13;&zwnj; &lt;b&gt; `&#x202e;` [&#x2066;x](http://a.example)\n", 100
    )
    assert "\\u202egnp.exe \\u200b" in shown and "<b>" in shown and "\\u2066x" in shown
    assert not set(shown) & set("\u202e\u200b\r\u2066")


def test_the_lines_of_a_tool_stay_lines() -> None:
    assert markdown(Like())("Buy milk\nCall Ann\n", 100) == "Buy milk\nCall Ann\n"


def test_a_huge_block_costs_no_more_for_each_letter_than_a_small_one() -> None:
    # Copied for each letter, this would take minutes.
    paper = Paper()
    for _ in range(100):
        paper.page.text("x" * 10_000)
    paper.page.settle()
    assert paper.out.getvalue().count("x") == 1_000_000
