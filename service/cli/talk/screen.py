"""The screen of a talk: replies on a page, events as one dim line each, cards and Markdown set by rich."""

from __future__ import annotations

import os
import re
import shutil
import sys
from io import StringIO
from typing import Any

from service.cli.cards import console
from service.cli.plain import visible
from service.cli.talk.page import Page, Render
from service.cli.talk.words import harmless

_PADDING = re.compile(r" +$", re.MULTILINE)
_STYLE = re.compile(r"(\x1b\[[\d;]*m)")
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    """Standard output as a terminal; where it can't move its cursor, words stay as they came."""

    def __init__(self) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            # A terminal that is not UTF-8 shows escapes instead of ending the talk.
            sys.stdout.reconfigure(errors="backslashreplace")
        self.is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        self.out = console()
        self.page = Page(sys.stdout, window, None if self.is_dumb else markdown(self.out), self._dim)

    def _dim(self, line: str) -> str:
        return line if self.is_dumb else f"{DIM}{line}{PLAIN}"

    def note(self, text: str, *, whole: bool = True) -> None:
        """A dim line beside the talk."""
        self.page.note(visible(text), whole=whole)

    def say(self, text: str = "") -> None:
        """A line of the shell's own, whole."""
        self.page.settle()
        print(harmless(text), flush=True)


def window() -> tuple[int, int]:
    """Columns and lines as they are now."""
    size = shutil.get_terminal_size((80, 24))
    return max(size.columns, 2), max(size.lines, 2)


def markdown(like: Any) -> Render:
    """Sets Markdown with the colours of that console. Nothing is hidden: links show where they lead, HTML is text."""

    def render(block: str, width: int) -> str:
        # Imported here: it takes a tenth of a second that a first prompt need not wait for.
        from markdown_it import MarkdownIt
        from rich.console import Console
        from rich.markdown import Markdown

        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
        document = Markdown(block, hyperlinks=False, code_theme="ansi_dark")
        document.parsed = parser.parse(block)
        for line in document.parsed:
            for piece in line.children or ():
                # What tools say is often lines, not Markdown: they stay lines.
                piece.type = "hardbreak" if piece.type == "softbreak" else piece.type
        written = StringIO()
        target = Console(
            file=written, width=max(width - 1, 2), force_terminal=True, color_system=like.color_system or None,
            no_color=like.no_color, highlight=False, markup=False, emoji=False, legacy_windows=False,
        )  # fmt: skip
        target.print(document)
        # Again, since Markdown's `&#x202e;` is a character only now.
        parts = _STYLE.split(_PADDING.sub("", written.getvalue()))
        parts[::2] = map(harmless, parts[::2])
        return "".join(parts).strip("\n") + "\n"

    return render
