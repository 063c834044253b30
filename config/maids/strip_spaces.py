"""Remove spaces and tabs at line ends: strip_spaces.py [--check] FOLDER; --check changes nothing, and exits with 1."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 1 << 20
SKIPPED_FOLDERS = {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__"}
# Spaces at a line's end have a meaning there.
SKIPPED_SUFFIXES = {".md", ".markdown", ".diff", ".patch"}
LINE_END = re.compile(rb"[ \t]+(?=\r?\n|\Z)")


def texts(folder: Path) -> Iterator[Path]:
    """Every small file that is no link, in a fixed order."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(place, name)
            is_plain = path.is_file() and not path.is_symlink()
            if is_plain and path.suffix not in SKIPPED_SUFFIXES and path.stat().st_size <= MAX_BYTES:
                yield path


def stripped(content: bytes) -> bytes:
    """The content without spaces at line ends; binary files and other encodings stay as they are."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return content
    return content if b"\0" in content else LINE_END.sub(b"", content)


def main(arguments: list[str]) -> int:
    """Strip, or check, all files below a folder; print each file that is not clean."""
    check = arguments[:1] == ["--check"]
    folder = Path(arguments[-1])
    found = 0
    for path in texts(folder):
        content = path.read_bytes()
        clean = stripped(content)
        if clean != content:
            found += 1
            print(path.relative_to(folder).as_posix())
            if not check:
                path.write_bytes(clean)
    print(f"{found} file(s) {'with spaces at line ends' if check else 'changed'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
