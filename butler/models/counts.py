"""What became of the requests to a model endpoint, since the process began (E5)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class ModelCounts:
    """`answered` and `failed` are by purpose: ``chat``, or that of a hidden call."""

    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    input_tokens: Counter[str] = field(default_factory=Counter)
    output_tokens: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    fallbacks: int = 0
