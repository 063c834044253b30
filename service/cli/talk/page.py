"""A reply on a screen: its words at once as they come, each block of Markdown set properly when it is complete."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TextIO

from service.cli.talk.words import clipped, harmless, widest

Size = Callable[[], tuple[int, int]]
"""Gives columns and lines of the window as it is now."""
Render = Callable[[str, int], str]
"""Sets a block of Markdown for so many columns; what it gives ends with a line feed."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])(\s|$)")
_GOES_ON = frozenset(" \t-*+0123456789")
"""How a line may begin that belongs to the list above it, blank line or not."""


class Page:
    """Where a reply is written.

    The words of a block are written with line breaks of our own, so that it is known how many lines they took. A
    complete block is then written over in one piece. A block that is too tall, or a window that changed its width,
    keeps the words as they are.

    Args:
        out: the terminal.
        size: its size.
        render: sets a block; None leaves all as it came, with no cursor movement at all.
        dim: marks a line as one beside the reply.
    """

    def __init__(self, out: TextIO, size: Size, render: Render | None, dim: Callable[[str], str] = str) -> None:
        self._out, self._size, self._render, self._dim = out, size, render, dim
        self._empty = True
        self._gap = False
        self._clear()

    def _clear(self) -> None:
        # In pieces: a text that grows letter by letter would be copied for each of them.
        self._block, self._line = list[str](), list[str]()
        self._fence = ""
        self._first, self._after_blank, self._is_list = True, False, False
        self._rows, self._column = 0, 0
        self._width, self._height = self._size()

    def text(self, piece: str) -> None:
        """Write some more of a reply."""
        written: list[str] = []
        for char in harmless(piece):
            if char == "\n":
                if self._block:
                    self._end_line(written)
                continue
            if not self._line and self._is_over(char):
                self._set(written)
            if not self._block:
                self._clear()
                if self._gap:
                    written.append("\n")
                self._gap = False
            self._empty = False
            self._block.append(char)
            self._line.append(char)
            self._put(char, written)
        self._write(written)

    def settle(self) -> None:
        """Finish what is being written; the cursor is at the left edge afterwards."""
        written: list[str] = []
        self._set(written)
        self._write(written)

    def note(self, line: str, *, whole: bool = False) -> None:
        """A line beside the reply, cut to the window unless it is to be `whole`."""
        self.settle()
        self._out.write(self._dim(line if whole else clipped(line, max(self._size()[0] - 1, 8))) + "\n")
        self._out.flush()
        self._gap = False

    def _is_over(self, char: str) -> bool:
        """Whether the line that begins with this character begins a new block."""
        return self._after_blank and not self._fence and not (self._is_list and char in _GOES_ON)

    def _end_line(self, written: list[str]) -> None:
        line = "".join(self._line)
        if self._first:
            self._first, self._is_list = False, bool(_ITEM.match(line))
        if mark := _FENCE.match(line):
            if not self._fence:
                self._fence = mark[1]
            elif mark[1].startswith(self._fence) and not line.strip().strip(mark[1][0]):
                self._fence = ""
        self._after_blank = not line.strip()
        self._line = []
        self._block.append("\n")
        self._rows += 1
        self._column = 0
        written.append("\n")

    def _put(self, char: str, written: list[str]) -> None:
        width = widest(char)
        if self._render is not None and width and self._column and self._column + width > max(self._width - 1, 1):
            written.append("\n")
            self._rows += 1
            self._column = 0
        written.append(char)
        self._column += width

    def _set(self, written: list[str]) -> None:
        """Write the finished block over its words."""
        block, column = "".join(self._block), self._column
        if not block:
            return
        self._block = []
        self._gap = True
        fits = self._rows < self._height - 1 and self._size()[0] == self._width
        if self._render is not None and fits and block.strip():
            up = f"\x1b[{self._rows}A" if self._rows else ""
            written.append(f"\r{up}\x1b[J{self._render(block, self._width)}")
        elif column:
            written.append("\n")
        else:
            self._gap = self._gap and not self._after_blank
        self._line = []

    def _write(self, written: list[str]) -> None:
        if written:
            self._out.write("".join(written))
            self._out.flush()
