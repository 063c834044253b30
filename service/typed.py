"""Decisions typed in chat: `/approve`, `/deny`, `/edit` and `/respond` with codes (http-api, *Chat*)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from butler.approvals.actions import Action
from butler.approvals.decide import Decision
from butler.approvals.show import approval
from butler.commands import HOUSE_COMMANDS, CommandError, HouseCommand, read_arguments
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.database import Database
from butler.types import Json
from nodes.context import Faculties
from service.decisions import Decided, Decisions, Settled
from service.naming import Named, find_named

MOST_CODES = 50
VERBS = {"approve": "Approved", "edit": "Approved with other arguments", "reject": "Denied", "respond": "Answered"}


@dataclass(frozen=True)
class Answer:
    """What a command says; `decided` when it moved the very thread it was typed in, whose outcome then answers."""

    text: str = ""
    decided: Decided | None = None


class TypedDecisions:
    """Carries out the deciding commands. Raises ButlerError for those that can't be."""

    def __init__(self, faculties: Faculties, database: Database, decisions: Decisions) -> None:
        self._faculties = faculties
        self._database = database
        self._decisions = decisions

    async def run(self, command: HouseCommand, text: str, thread_id: str, person: Principal) -> Answer:
        """Carry out `command`, typed as `text` in a thread that is this person's."""
        code, rest = (*command.rest.split(None, 1), "", "")[:2]
        if not code:
            raise ButlerError("invalid_request", f"Usage: {HOUSE_COMMANDS[command.name]}. /approvals lists the codes.")
        if command.name == "approve" and rest:
            return Answer(await self._approve_all([code, *rest.split()], person))
        decision = await self._decision(command.name, code, rest, person)
        decided = await self._decisions.by_code(code, decision, person, "chat", (thread_id, text))
        action = decided.actions[0]
        if decided.in_part:
            return Answer(self._in_part(action))
        if action.thread_id == thread_id:
            return Answer(decided=decided)
        return Answer(f"{VERBS[decision.kind]}: {self._title(action)}. Its own thread ({action.thread_id}) goes on.")

    async def _decision(self, name: str, code: str, rest: str, person: Principal) -> Decision:
        match name:
            case "approve":
                return Decision("approve")
            case "deny":
                return Decision("reject", reason=rest or None)
            case "respond" if rest:
                return Decision("respond", response=rest)
            case "edit" if rest:
                [action] = await self._found([code], person)
                return Decision("edit", args=self._edited(action, rest), fingerprint=action.shown_fingerprint)
            case _:
                raise ButlerError("invalid_request", f"Usage: {HOUSE_COMMANDS[name]}.")

    def _edited(self, action: Action, rest: str) -> Json:
        """``{json}`` replaces all arguments; ``key=value`` changes those that it names."""
        tool = self._faculties.tools.get(action.tool)
        try:
            args = read_arguments("edit CODE", rest, tool.input_schema if tool else {})
        except CommandError as error:
            raise ButlerError(error.code, str(error)) from None
        return args if rest.startswith("{") else {**action.shown_args, **args}

    async def _approve_all(self, codes: list[str], person: Principal) -> str:
        """Approve several, each on its own; a word that is no code of theirs stops all, since it may be a "not"."""
        if len(codes) > MOST_CODES:
            raise ButlerError("invalid_request", f"/approve takes at most {MOST_CODES} codes at once.")
        found = await self._found(codes, person)
        named = [
            Named(Decision("approve", fingerprint=action.shown_fingerprint), action_id=action.action_id)
            for action in {action.action_id: action for action in found}.values()
        ]
        settled = await self._decisions.many(named, person, "chat")
        return "\n".join(f"- {self._line(one)}" for one in settled)

    async def _found(self, codes: list[str], person: Principal) -> list[Action]:
        def query(connection: Connection) -> list[Action]:
            return [find_named(connection, Named(Decision("approve"), code=code), person) for code in codes]

        return await self._database.read(query)

    def _line(self, one: Settled) -> str:
        if one.error is not None or one.action is None:
            return f"Not approved: {one.error.detail if one.error else ''}"
        return self._in_part(one.action) if one.action.status == "pending" else f"Approved: {self._title(one.action)}"

    def _in_part(self, action: Action) -> str:
        given, needed = len(action.approved_by or ()), action.approvals_needed
        return f"Approved by you: {self._title(action)}. {given} of {needed} approvals; it waits for another person."

    def _title(self, action: Action) -> str:
        title = approval(action, self._faculties.tools, self._faculties.redactor)["title"]
        return str(title)
