"""Shortens a long diff so that something of every file stays in sight, and says what is left out (D6)."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

HEAD = b"diff --git "
LEAST = 400
"""Bytes that are shown of each file, as far as there is room at all."""
_ROOM = 80


def cut_file(path: Path, limit: int) -> tuple[str, bool]:
    """The same for a file, which may be large."""
    if path.stat().st_size == 0:
        return "", False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return cut_diff(data, limit)


def cut_diff(data: bytes | mmap.mmap, limit: int) -> tuple[str, bool]:
    """Text of a patch in `limit` bytes, and whether anything is left out.

    Long parts give way to short ones: a large file does not hide a small one. What is left out of a file, and how many
    files are not shown at all, stands in lines that no file can hold, since they begin with a bracket.
    """
    if len(data) <= limit:
        return data[:].decode("utf-8", "replace"), False
    starts = [0]
    while (at := data.find(b"\n" + HEAD, starts[-1])) >= 0:
        starts.append(at + 1)
    sizes = [end - start for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    share = max(LEAST, _share(sizes, limit - _ROOM))
    parts: list[str] = []
    used = 0
    for place, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shown = min(size, share, limit - _ROOM - used)
        if shown < min(size, LEAST // 2):
            parts.append(f"[… the changes of {len(sizes) - place} more files are not shown]\n")
            break
        parts.append(_part(data, start, size, shown))
        used += shown
    return "".join(parts), True


def _part(data: bytes | mmap.mmap, start: int, size: int, shown: int) -> str:
    if shown >= size:
        return data[start : start + size].decode("utf-8", "replace")
    head = data[start : start + shown - _ROOM]
    # At the end of a line, if that is not far away; a character that the cut went through is left away.
    line_end = head.rfind(b"\n") + 1
    head = head[:line_end] if line_end > len(head) // 2 else head
    text = head.decode("utf-8", "ignore")
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[… {size - len(head)} more bytes are not shown]\n"


def _share(sizes: Sequence[int], limit: int) -> int:
    """The most that each may have, so that all together have `limit`."""
    left = limit
    for place, size in enumerate(sorted(sizes)):
        others = len(sizes) - place
        if size * others > left:
            return left // others
        left -= size
    return limit
