"""Texts of others inside a prompt: delimited so that they can't end their own quotation (D5)."""

from __future__ import annotations

import hashlib

from butler.maids.verify.findings import bounded


def delimited(name: str, text: str) -> str:
    """A text between tags that carry its own hash, which it can't contain."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"<{name}-{mark}>\n{text}\n</{name}-{mark}>"


def quoted(text: str, limit: int) -> str:
    """A bounded text with ``> `` before each line; for what programs and maids wrote."""
    return "\n".join(f"> {line}" for line in bounded(text, limit).splitlines() or [""])


def one_line(text: str, limit: int = 300) -> str:
    """A text on one line, bounded; control characters become spaces."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
