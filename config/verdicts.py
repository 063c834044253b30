"""Verdicts and risks as they are written in files, and their meaning."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["allow", "approve", "refuse"]
Risk = Literal["safe", "dangerous", "cross_hub", "forbidden"]
WrittenVerdict = Literal["allow", "approve", "refuse", "ask", "deny"]

_MEANING: dict[WrittenVerdict, Verdict] = {
    "allow": "allow",
    "approve": "approve",
    "refuse": "refuse",
    "ask": "approve",
    "deny": "refuse",
}


def meant(written: WrittenVerdict) -> Verdict:
    """Give the verdict that a written word stands for."""
    return _MEANING[written]
