"""Empty the journal: clear_journal.py JOURNAL."""

from __future__ import annotations

import sys
from pathlib import Path


def main(journal: str) -> None:
    """Say how many lines are gone."""
    path = Path(journal)
    count = len(path.read_bytes().splitlines()) if path.exists() else 0
    path.unlink(missing_ok=True)
    print(f"The journal is empty now; it had {count} lines.")


if __name__ == "__main__":
    main(*sys.argv[1:])
