"""The template that a project has for tasks of an intent, from its `issue_template_dir` (D12)."""

from __future__ import annotations

import re
from pathlib import Path

import structlog

log = structlog.get_logger("butler.maids")

MOST_BYTES = 32 * 1024
FRONT_MATTER = re.compile(r"\A---\r?\n.*?^---\r?$\n?", re.DOTALL | re.MULTILINE)
"""What forges put before the text of an issue template; it says nothing to a maid."""


def issue_template(folder: Path | None, intent: str) -> str:
    """The text of ``INTENT.md``, else of ``default.md``; empty where there is neither.

    Args:
        folder: with links resolved; a file in it that leads elsewhere is not read.
    """
    for name in (f"{intent}.md", "default.md") if folder is not None else ():
        assert folder is not None
        path = folder / name
        try:
            if path.resolve().parent != folder or not path.is_file():
                continue
            with path.open("rb") as handle:
                text = handle.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError as error:
            log.warning("issue_template_not_read", path=str(path), error=str(error))
            continue
        return FRONT_MATTER.sub("", text).strip()
    return ""
