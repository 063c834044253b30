"""What a grant would have covered: looked up in the recorded calls of the tool before anything is granted (E3)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from butler.approvals import grants
from butler.approvals.actions import Action
from butler.approvals.decide import may_see, open_question
from butler.approvals.grants import GrantWish, Patterns, Scope, args_covered
from butler.approvals.judge import Judge
from butler.approvals.ledger import get
from butler.approvals.proposals import proposals_for
from butler.approvals.wishes import grantable, note_on, terms_of
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.tables import actions
from butler.types import Json

MOST_LOOKED_AT = 1000
MOST_SHOWN = 50

PAST = (
    select(actions)
    .order_by(actions.c.requested_at.desc())
    .limit(MOST_LOOKED_AT)
)  # fmt: skip


def past_calls(connection: Connection, action: Action, person: Principal) -> list[Action]:
    """The latest calls of the tool before `action` that this person may know of, newest first."""
    query = PAST.where(actions.c.tool == action.tool, actions.c.action_id != action.action_id)
    return [past for past in map(Action.of_row, connection.execute(query)) if may_see(past, person)]


def in_scope(past: Action, action: Action, scope: Scope) -> bool:
    """Whether a grant of that scope beside the approval of `action` speaks of the call `past`."""
    if scope == "thread":
        return past.thread_id == action.thread_id
    return scope == "everyone" or past.requester_id == action.requester_id


def covered_by(
    past: Sequence[Action], action: Action, scope: Scope, patterns: Patterns, *, closed: bool
) -> list[Action]:
    """Those of the past calls that such a grant would have let pass."""
    return [one for one in past if in_scope(one, action, scope) and args_covered(patterns, closed, one.args)]


def preview(connection: Connection, action: Action, wish: GrantWish, person: Principal, judge: Judge) -> Json:
    """A wish as the grant that it would be, what is missing for it, and which past calls it would have covered.

    Raises: ButlerError ``invalid_request`` for patterns that don't fit the call.
    """
    terms = terms_of(action, wish, person, judge, insist=False)
    shown = grants.draft(action, person, terms).public()
    del shown["grant_id"]
    past = past_calls(connection, action, person)
    covered = covered_by(past, action, terms.scope, terms.args, closed=terms.closed)
    items = [
        {"action_id": one.action_id, "title": judge.redacted(one.title), "requested_at": one.requested_at,
         "requested_by": one.requested_by, "status": one.status}
        for one in covered[:MOST_SHOWN]
    ]  # fmt: skip
    return {
        "grant": judge.redacted(shown),
        "wide": terms.wide,
        "needs": list(terms.needs),
        "covered": {"total": len(covered), "looked_at": len(past), "items": items},
        "note": terms.note,
    }


def preview_for(connection: Connection, action_id: str, wish: GrantWish, person: Principal, judge: Judge) -> Json:
    """The preview for somebody who may decide the action. Raises ButlerError as deciding it would."""
    return preview(connection, _question(connection, action_id, person, judge), wish, person, judge)


def _question(connection: Connection, action_id: str, person: Principal, judge: Judge) -> Action:
    action = get(connection, action_id)
    if action is None or not may_see(action, person):
        raise ButlerError("not_found", f"There is no approval {action_id!r}.")
    return open_question(connection, action_id, person, judge)


def offers(connection: Connection, action_id: str, person: Principal, judge: Judge) -> Json:
    """Grants that somebody who decides this action may want, from this very call to wider ones.

    Raises: ButlerError as deciding it would.
    """
    action = _question(connection, action_id, person, judge)
    about = {"tool": action.tool, "title": judge.redacted(action.title)}
    try:
        grantable(action, judge)
    except ButlerError as error:
        return {**about, "proposals": [], "looked_at": 0, "note": error.detail}
    past = past_calls(connection, action, person)
    scopes: list[Scope] = ["thread", "user", *(["everyone"] if person.is_admin else [])]  # type: ignore[list-item]
    items = [
        {
            "label": proposal.label,
            "args": proposal.args,
            "closed": proposal.closed,
            "scopes": list(scopes),
            "covers": {
                scope: len(covered_by(past, action, scope, proposal.args, closed=proposal.closed)) for scope in scopes
            },
        }
        for proposal in proposals_for(action.tool, action.shown_args, judge.secret_args(action.tool, action.shown_args))
    ]
    note = note_on(action, person, judge)
    return {**about, "proposals": judge.redacted(items), "looked_at": len(past), "note": note}
