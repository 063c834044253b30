"""Which maid a task goes to, and why: the first route of the intent whose conditions hold (D1, D2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from butler.errors import ButlerError
from butler.maids.conditions import Condition, Facts, examine
from butler.types import Json
from config.maid_types import MaidDefinition, MaidRegistryFile, RouteDefinition
from config.problems import did_you_mean

RouteOutcome = Literal["won", "did_not_hold", "came_later"]
RoutedOutcome = Literal["delegated", "not_delegated", "no_route", "unknown_intent"]


@dataclass(frozen=True)
class Tried:
    """One route of the intent; `conditions` are looked at also where an earlier route has won."""

    route: RouteDefinition
    outcome: RouteOutcome
    conditions: tuple[Condition, ...]

    @property
    def reason(self) -> str:
        """Why it won, or did not, in one line."""
        failed = [str(condition) for condition in self.conditions if not condition.holds]
        if self.outcome == "did_not_hold":
            return "; ".join(failed)
        if self.outcome == "came_later":
            return "an earlier route has won" + (f"; also {'; '.join(failed)}" if failed else "")
        held = [str(condition) for condition in self.conditions]
        return "; ".join(held) if held else "it has no conditions"

    def document(self) -> Json:
        """The same for JSON."""
        return {
            "source": self.route.source,
            "intent": self.route.intent,
            "maid_id": self.route.maid_id,
            "outcome": self.outcome,
            "reason": self.reason,
            "conditions": [
                {"name": item.name, "wanted": item.wanted, "actual": item.actual, "holds": item.holds}
                for item in self.conditions
            ],
        }


@dataclass(frozen=True)
class Routed:
    """Where a task goes.

    `outcome`: ``delegated`` to `maid`; ``not_delegated`` since `route` says so; ``no_route`` of the intent holds;
    ``unknown_intent``: the file has no route of it. `route` is None also for a maid that a person named without any
    route to it.
    """

    outcome: RoutedOutcome
    reason: str
    maid: MaidDefinition | None = None
    route: RouteDefinition | None = None
    trail: tuple[Tried, ...] = ()

    def document(self) -> Json:
        """What is kept with the run and shown: outcome, maid, route, reason and every route that was tried."""
        return {
            "outcome": self.outcome,
            "maid_id": self.maid.maid_id if self.maid else None,
            "route": self.route.source if self.route else None,
            "reason": self.reason,
            "trail": [tried.document() for tried in self.trail],
        }


def route(facts: Facts, routes: Iterable[RouteDefinition], registry: MaidRegistryFile) -> Routed:
    """Pick the maid of a task.

    Raises:
        ButlerError: for a maid that a person named: ``not_found`` where there is none, ``invalid_request`` where it is
            disabled.
    """
    routes = tuple(routes)
    trail = _trail(facts, [item for item in routes if item.intent == facts.intent], registry)
    if facts.maid_id is not None:
        return _named(facts.maid_id, trail, registry)
    winner = next((tried for tried in trail if tried.outcome == "won"), None)
    if winner is not None:
        return _won(winner, trail, registry)
    if trail:
        reason = f"None of the {len(trail)} route(s) of {facts.intent!r} holds, so it is not delegated."
        return Routed("no_route", reason, trail=trail)
    return Routed("unknown_intent", _no_such_intent(facts.intent, routes))


def _trail(facts: Facts, routes: list[RouteDefinition], registry: MaidRegistryFile) -> tuple[Tried, ...]:
    trail: list[Tried] = []
    has_won = False
    for item in routes:
        maid = registry.maid(item.maid_id) if item.maid_id is not None else None
        conditions = examine(item, maid, facts)
        if item.maid_id is not None and (maid is None or not maid.enabled):
            # Loading refuses such a route; whoever puts routes together otherwise must not start the maid.
            conditions = (*conditions, Condition("maid", "an enabled maid", f"{item.maid_id} is not", False))
        holds = all(condition.holds for condition in conditions)
        trail.append(Tried(item, "came_later" if has_won else "won" if holds else "did_not_hold", conditions))
        has_won = has_won or holds
    return tuple(trail)


def _won(winner: Tried, trail: tuple[Tried, ...], registry: MaidRegistryFile) -> Routed:
    chosen = winner.route
    if chosen.maid_id is None:
        reason = f"The route at {chosen.source} says not to delegate: {winner.reason}."
        return Routed("not_delegated", reason, None, chosen, trail)
    reason = f"The route at {chosen.source} gives it to {chosen.maid_id}: {winner.reason}."
    return Routed("delegated", reason, registry.maid(chosen.maid_id), chosen, trail)


def _named(maid_id: str, trail: tuple[Tried, ...], registry: MaidRegistryFile) -> Routed:
    maid = registry.maid(maid_id)
    enabled = [other.maid_id for other in registry.maids if other.enabled]
    if maid is None:
        hint = did_you_mean(maid_id, enabled)
        raise ButlerError("not_found", f"There is no maid {maid_id!r}{hint}. `butler maids list` shows them all.")
    if not maid.enabled:
        raise ButlerError(
            "invalid_request", f"The maid {maid_id!r} is disabled in maid_registry.yml. Name another one."
        )
    # The first route to this maid still says how often to try.
    own = next((tried.route for tried in trail if tried.route.maid_id == maid_id), None)
    return Routed("delegated", f"{maid_id} was named by whoever asked.", maid, own, trail)


def _no_such_intent(intent: str, routes: tuple[RouteDefinition, ...]) -> str:
    known = list(dict.fromkeys(item.intent for item in routes))
    if not known:
        return f"There is no route for the intent {intent!r}: intent_maid_routes.yml has no routes at all."
    listed = ", ".join(known)
    return f"There is no route for the intent {intent!r}{did_you_mean(intent, known)}. The intents are: {listed}."
