"""Which exit status says what happened (E1)."""

from __future__ import annotations

import os
from collections.abc import Iterable

from butler.errors import ButlerError

DONE, USAGE, PARKED, REFUSED, FAILED = 0, 2, 3, 4, 5

STATUS_OF_ERROR = {"unauthorized": REFUSED, "forbidden": REFUSED, "not_an_approver": REFUSED, "parked": PARKED}
FROM_BEST_TO_WORST = (DONE, PARKED, USAGE, REFUSED, FAILED)


def exit_status(error: ButlerError) -> int:
    """The exit status for an error that ended a command."""
    return STATUS_OF_ERROR.get(error.code, USAGE if error.status == 422 else FAILED)


def worst(statuses: Iterable[int]) -> int:
    """The exit status of several things done at once."""
    return max(statuses, key=FROM_BEST_TO_WORST.index, default=DONE)


def nobody_reads() -> int:
    """Nothing more can be said on standard output, also not at the very end; gives the exit status."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return FAILED
