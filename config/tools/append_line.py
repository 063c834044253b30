"""Append one line to the journal: append_line.py JOURNAL TEXT."""

from __future__ import annotations

import os
import sys


def main(journal: str, text: str) -> None:
    """Write the line in one piece, so that lines written at the same time don't mix."""
    line = " ".join(text.split()) + "\n"
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode("utf-8"))
        os.fsync(handle)
    finally:
        os.close(handle)
    print(f"Appended: {line}", end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
