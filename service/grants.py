"""Grants as people meet them: what there is, taking one back, and looking before giving one (E3)."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from butler.approvals import grants, ledger, preview
from butler.approvals.grants import Grant, GrantWish
from butler.approvals.judge import Judge
from butler.approvals.wishes import note_on
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import audit
from butler.storage.database import Database
from butler.storage.users import find_user
from butler.tools.registry import ToolRegistry
from butler.types import Json


class Grants:
    """Every face's way to the grants; they are given only beside an approve, in `decide()`."""

    def __init__(self, database: Database, judge: Judge, tools: ToolRegistry) -> None:
        self._database = database
        self._judge = judge
        self._tools = tools

    async def listed(self, person: Principal, *, everything: bool) -> list[Json]:
        """The live grants that this person may see, or all that ever were; `note` says why one changes nothing."""

        def query(connection: Connection) -> list[Json]:
            found = grants.visible_to(connection, person, self._tools, everything=everything)
            return [{**grant.public(self._tools), "note": self._note(connection, grant)} for grant in found]

        return self._judge.redacted(await self._database.read(query))

    def _note(self, connection: Connection, grant: Grant) -> str | None:
        """Why a live grant changes nothing, as far as the call beside which it was given tells."""
        action = ledger.get(connection, grant.action_id) if grant.action_id else None
        if action is None or grant.state(self._tools) != "live":
            return None
        giver = find_user(connection, grant.granted_by)
        return note_on(action, giver, self._judge) if giver else None

    async def revoke(self, grant_id: str, person: Principal, via: str) -> None:
        """End a grant now. Raises ButlerError ``not_found``; an attempt on somebody else's is audited."""

        def transaction(connection: Connection) -> ButlerError | None:
            try:
                grants.revoke(connection, grant_id, person, via)
            except ButlerError as error:
                if grants.exists_live(connection, grant_id):
                    audit.record(
                        connection, "attempt_refused", actor=person.name, via=via, code=error.code, grant_id=grant_id
                    )
                return error
            return None

        error = await self._database.write(transaction)
        if error is not None:
            raise error

    async def offers(self, action_id: str, person: Principal) -> Json:
        """What may be granted beside the approval of an action. Raises ButlerError as deciding it would."""
        return await self._database.read(
            partial(preview.offers, action_id=action_id, person=person, judge=self._judge)
        )  # fmt: skip

    async def preview(self, action_id: str, wish: GrantWish, person: Principal) -> Json:
        """What a wish would come to, without granting it. Raises ButlerError as deciding the action would."""
        return await self._database.read(
            partial(preview.preview_for, action_id=action_id, wish=wish, person=person, judge=self._judge)
        )

    async def void_changed(self) -> None:
        """End for good the grants of tools whose definition has changed since the last start (E3)."""
        if await self._database.read(partial(grants.changed, tools=self._tools)):
            await self._database.write(partial(grants.void, tools=self._tools))
