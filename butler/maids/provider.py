"""Access of an agent to its model provider, as the lower floors see it; the proxy itself stands in service (D11)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from butler.maids.contract import ProviderTrouble, Tokens
from config.maid_types import Endpoint, Limits

OnTrouble = Callable[[ProviderTrouble], None]
OnLimit = Callable[[str], None]


def _nothing_spent() -> Tokens:
    return Tokens()


@dataclass(frozen=True)
class ProviderAccess:
    """Where an agent finds its provider for one attempt, and with what key; the real key is not in it.

    `url` has no path: what the agent is given is `url` plus the endpoint's `url_suffix`. `spent` tells what has been
    used so far.
    """

    url: str
    key: str = field(repr=False)
    spent: Callable[[], Tokens] = field(default=_nothing_spent, repr=False, compare=False)


class ProviderAccessFactory(Protocol):
    """Opens the access for one attempt and closes it with the block."""

    def __call__(
        self,
        endpoint: Endpoint,
        key: str | None,
        limits: Limits,
        on_trouble: OnTrouble,
        on_limit: OnLimit | None = None,
    ) -> AbstractAsyncContextManager[ProviderAccess]:
        """Start to listen.

        Args:
            endpoint: the provider that requests go to.
            key: its real key; None for one that wants none.
            limits: `model_requests` and `tokens` bound the attempt, `silence` (s) how long an answer may take.
            on_trouble: told of every answer that says 401, 402, 429 or 5xx, of other refused model calls, and, with
                status 0, of no answer.
            on_limit: told once, in a sentence, when requests or tokens of the attempt are used up.
        """
