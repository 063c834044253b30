"""All that is known of an attempt when it is judged: what it did, what it left, what the checks say (D7)."""

from __future__ import annotations

from dataclasses import dataclass

from butler.maids.contract import (
    CheckResult,
    Diff,
    Finished,
    PermissionRequest,
    ProviderTrouble,
    ToolUse,
    Verification,
)

TEXT = 16 * 1024


@dataclass(frozen=True)
class Observation:
    """One attempt from outside.

    `tools`: the last state of each call, in the order of first sight, the latest ones if there were many.
    `texts`: what the agent said, the last one last. `recovered`: the agent went on after the provider's last trouble.
    `outside`: paths outside of the tree that were changed. `refusals`: permission requests that were refused.
    `diff` None: it could not be taken. `verification` None: nothing was checked, since the attempt never came so far.
    """

    finished: Finished
    tools: tuple[ToolUse, ...] = ()
    texts: tuple[str, ...] = ()
    trouble: tuple[ProviderTrouble, ...] = ()
    recovered: bool = False
    diff: Diff | None = None
    outside: tuple[str, ...] = ()
    verification: Verification | None = None
    refusals: tuple[PermissionRequest, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there were checks and all of them passed."""
        return self.verification is not None and self.verification.outcome == "passed"

    @property
    def has_changes(self) -> bool:
        """Whether any of the work is there."""
        return self.diff is not None and not self.diff.is_empty

    @property
    def last_text(self) -> str:
        """The agent's last words; of one that speaks no protocol, the end of its output."""
        spoken = self.texts[-1] if self.texts else ""
        # What an agent prints between tool calls is its protocol, not its words.
        return (self.finished.claim or spoken or ("" if self.tools else self.finished.stdout_tail))[-TEXT:]

    @property
    def all_text(self) -> str:
        """The ends of everything it said or printed."""
        ends = (*self.texts[-20:], self.finished.claim, self.finished.stdout_tail, self.finished.stderr_tail)
        return "\n".join(text[-TEXT:] for text in ends if text)[-4 * TEXT :]

    def first_check(self, outcome: str) -> CheckResult | None:
        """The first check that came out so."""
        checks = self.verification.checks if self.verification else ()
        return next((check for check in checks if check.outcome == outcome), None)
