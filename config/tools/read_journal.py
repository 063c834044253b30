"""Print the last lines of the journal: read_journal.py JOURNAL COUNT."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

DEFAULT_COUNT = 20


def main(journal: str, count: str) -> None:
    """Print the lines; an argument that was not given arrives as an empty text."""
    path = Path(journal)
    if not path.exists():
        print("The journal is empty.")
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        last = deque(lines, int(count) if count else DEFAULT_COUNT)
    print("".join(last) or "The journal is empty.\n", end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
