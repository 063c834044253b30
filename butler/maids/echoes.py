"""Output that goes round in circles line by line: the same few lines again and again, in bounded memory (D7).

Text that streams without lines is looked at in `repetition.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LONGEST_CYCLE = 8
"""Lines that together are repeated."""
KEPT_REST = 4_096
"""Characters of a line without an end yet."""
DENSE = 1_000
"""A text of more lines than that is looked at as a whole."""
PAUSE_SECONDS = 5.0
"""So long the lines have to go on, with nothing changing in the tree, where they repeat 10 times too often."""
PATIENT_SECONDS = 30.0
"""So long where they don't: a suite of tests may warn of the same with each test."""
FAST_TIMES = 10
MUCH_TIMES = 50
MUCH_CHARACTERS = 1024 * 1024
"""What repeats this much, and 50 times as often as is allowed, needs no such pause."""
MOST_ENTRIES = 5_000
FEWEST_LETTERS = 3


@dataclass(frozen=True)
class _Suspicion:
    """Since when lines have been repeated too often, and what the tree was like then."""

    since: float
    tree: str


class Echoes:
    """Is fed with one output as it comes; tells when it only repeats a few lines and nothing else happens.

    Lines without letters or digits don't count, and neither break a row: dots and bars are signs of progress.

    Args:
        most: how often in a row a line, or a cycle of up to 8, may come.
        state_of_tree: a text that changes when the maid's tree does.
        clock: seconds that only go up.
    """

    def __init__(self, most: int, state_of_tree: Callable[[], str], clock: Callable[[], float]) -> None:
        self._most = most
        self._state_of_tree = state_of_tree
        self._clock = clock
        self._rest = ""
        self._last: deque[str] = deque(maxlen=LONGEST_CYCLE)
        self._equal = [0] * (LONGEST_CYCLE + 1)
        self._characters = [0] * (LONGEST_CYCLE + 1)
        self._suspicion: _Suspicion | None = None

    def add(self, text: str) -> str | None:
        """Take in the next text; gives what is repeated, in words, once it is certain."""
        whole, newline, rest = (self._rest + text).rpartition("\n")
        self._rest = rest[-KEPT_REST:]
        if newline:
            lines = [line for line in whole.split("\n") if _counts(line)]
            if len(lines) > DENSE and len(set(lines)) > LONGEST_CYCLE:
                self._forget()
                lines = lines[-LONGEST_CYCLE:]
            if len(lines) > DENSE:
                self._add_many(lines)
            else:
                for line in lines:
                    self._add_line(line)
        return self._judge() if newline else None

    def _add_line(self, line: str) -> None:
        known = len(self._last)
        for period in range(1, LONGEST_CYCLE + 1):
            if period <= known and self._last[-period] == line:
                self._equal[period] += 1
                self._characters[period] += len(line)
            else:
                self._equal[period] = self._characters[period] = 0
        self._last.append(line)

    def _add_many(self, lines: list[str]) -> None:
        """The same for many lines at once, without a step for each."""
        for line in lines[:LONGEST_CYCLE]:
            self._add_line(line)
        size = sum(map(len, lines))
        for period in range(1, LONGEST_CYCLE + 1):
            if lines[period:] == lines[:-period]:
                self._equal[period] += len(lines) - LONGEST_CYCLE
                self._characters[period] += size
            else:
                self._equal[period] = self._characters[period] = 0
        self._last.extend(lines[-LONGEST_CYCLE:])

    def _forget(self) -> None:
        self._last.clear()
        self._equal = [0] * (LONGEST_CYCLE + 1)
        self._characters = [0] * (LONGEST_CYCLE + 1)

    def _judge(self) -> str | None:
        period = next((one for one in range(1, LONGEST_CYCLE + 1) if self._times(one) >= self._most), None)
        if period is None:
            self._suspicion = None
            return None
        cycle = " / ".join(line.strip()[:100] for line in list(self._last)[-period:])
        said = f"{cycle[:300]!r}, {self._times(period)} times in a row"
        if self._times(period) >= self._most * MUCH_TIMES and self._characters[period] >= MUCH_CHARACTERS:
            return said
        now = self._clock()
        if self._suspicion is None:
            self._suspicion = _Suspicion(now, self._state_of_tree())
        elif now - self._suspicion.since >= self._pause(period):
            tree = self._state_of_tree()
            if tree == self._suspicion.tree:
                return said
            self._suspicion = _Suspicion(now, tree)
        return None

    def _pause(self, period: int) -> float:
        return PAUSE_SECONDS if self._times(period) >= self._most * FAST_TIMES else PATIENT_SECONDS

    def _times(self, period: int) -> int:
        return (self._equal[period] + period) // period if self._equal[period] else 1


def state_of_tree(top: Path) -> str:
    """A digest of names, sizes and times of change of the first few thousand files of a tree."""
    whole = hashlib.sha256()
    count = 0
    folders = [top]
    while folders and count < MOST_ENTRIES:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            whole.update(b"closed")
            continue
        with entries:
            for entry in entries:
                count += 1
                if count > MOST_ENTRIES:
                    break
                try:
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                except OSError:
                    continue
                whole.update(f"{entry.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _counts(line: str) -> bool:
    return sum(map(str.isalnum, line[:200])) >= FEWEST_LETTERS
