"""Ids: UUIDs for what machines pass around, short codes for what a person types."""

from __future__ import annotations

import secrets
import uuid

CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""No 0/O, 1/I/L: a code is read from one screen and typed on another."""


def new_id() -> str:
    """A random UUID; LangGraph Studio accepts thread ids only in this form."""
    return str(uuid.uuid4())


def new_code(length: int = 5) -> str:
    """A typing code for a pending approval, in upper case."""
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(length))
