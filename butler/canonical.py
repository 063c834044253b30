"""Canonical JSON and the fingerprint that binds a decision to the exact call (A7)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """Give one text per JSON value: sorted keys, no white space, no escapes beyond what JSON demands."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 in hex over tool name and canonical arguments (http-api, *Approval*)."""
    text = canonical_json([tool, dict(args)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
